"""What must be true whenever tony says no: a message, an exit code, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.lab import CEILING, Lab, command_of


def refused(lab: Lab, done: subprocess.CompletedProcess[str], *errors: str) -> None:
    """A job with errors: each is told on a line of its own and nothing else is; nothing was made, nothing runs.

    Args:
        errors: how each line begins: setting, value, place and what is wrong; the wording after that is free.
    """
    count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
    words = [str(word) for word in done.args]
    end = f" in {words[words.index('validate') + 1]}" if "validate" in words else "; nothing was started"
    *lines, last = done.stderr.splitlines()
    assert last == f"tony: {count}{end}"
    assert len(lines) == len(errors), lines
    for line, beginning in zip(lines, errors, strict=True):
        assert line.startswith(beginning)
    assert (2, "") == (done.returncode, done.stdout)
    nothing_left(lab)


def nothing_left(lab: Lab) -> None:
    """No job, no half of one, no object half staged, no claim on the machine, no report of a crash, no process."""
    assert [] == lab.jobs()
    home = [path.relative_to(lab.home) for path in lab.home.rglob("*")] if lab.home.exists() else []
    assert {"cache", "jobs", "submitting"} >= {path.parts[0] for path in home}
    assert [] == [path for path in home if path.suffix in (".part", ".new") or path.parent.name == "submitting"]
    ledger = lab.root / "ledger"
    assert [] == ([path.name for path in ledger.iterdir() if path.stat().st_size] if ledger.exists() else [])
    assert [] == running(lab)


def running(lab: Lab) -> list[str]:
    """Command lines of processes that name the lab's folder."""
    others = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if int(folder.name) != os.getpid()]
    lines = [command_of(pid).replace(b"\0", b" ").decode(errors="replace").strip() for pid in others]
    return [line for line in lines if str(lab.root) in line]


def python(lab: Lab, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of the user's that imports tony."""
    return subprocess.run(
        [*lab.prefix, sys.executable, "-c", code, *arguments],
        env=lab.env,
        cwd=lab.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
