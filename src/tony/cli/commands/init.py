"""`tony init [FOLDER]`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import click

from tony.cli.options import WordParameter
from tony.cli.starter_jobs import JOB_FILE, PROGRAM, STARTER_JOBS, build_job_file
from tony.cli.terminal.output import say, warn
from tony.errors import UserError
from tony.linux.disk_errors import explain_os_error

#: Seconds for the interpreter to say whether it has a module.
_LOOKUP_SECONDS = 10.0
_LOOKUP = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option(
    "--framework",
    type=WordParameter(list(STARTER_JOBS)),
    default="none",
    show_default=True,
    help="Framework of the program.",
)
def command(folder: str, framework: str) -> None:
    """Write a small job to begin with into FOLDER: job.toml and train.py.

    It trains on two workers, on CPUs, in seconds. Existing files are never overwritten.
    """
    place = Path(folder)
    existing = [name for name in (JOB_FILE, PROGRAM) if os.path.lexists(place / name)]
    if existing:
        raise UserError(
            f"not overwritten: {' and '.join(str(place / name) for name in existing)}. Name another folder: "
            "tony init FOLDER"
        )
    starter = STARTER_JOBS[framework]
    with explain_os_error(f"write into {place}", place):
        place.mkdir(parents=True, exist_ok=True)
        for name, text in ((PROGRAM, starter.program), (JOB_FILE, build_job_file(framework))):
            with (place / name).open("x", encoding="utf-8") as file:
                file.write(text)
    say(f"Wrote {place / JOB_FILE} and {place / PROGRAM}")
    if starter.module and _lacks_module(starter.module):
        warn(f"python3 of this shell has no {starter.module}: set `python` in {JOB_FILE} to an environment that has it")
    say(f"Next: tony submit {shlex.quote(str(place / JOB_FILE))}")


def _lacks_module(module: str) -> bool:
    """Return True if the interpreter that the job would use does not have a module."""
    python = shutil.which("python3")
    if python is None:
        return True
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [python, "-c", _LOOKUP, module], capture_output=True, timeout=_LOOKUP_SECONDS, check=False
        )
        return done.returncode == 1
    return False
