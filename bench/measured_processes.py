"""A clean place for jobs to be measured in, and the processes of a measurement, all of them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.harness import CPU, CannotRunError, Figures
from tony.linux.process import descendants, set_child_subreaper

#: Seconds after which a measurement is given up. Far above what any takes on a loaded machine.
TIMEOUT_SECONDS = 300.0
_TICK = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that ran to its end, and everything it started.

    Attributes:
        wall: seconds from before its start to its own end; what it left behind may have lived longer.
        cpu: seconds of user and system time, with all that it started, however detached.
    """

    code: int
    output: str
    wall: float
    cpu: float

    @property
    def figures(self) -> Figures:
        """For `interleaved`."""
        return {"wall": self.wall, CPU: self.cpu}


class Workshop:
    """A context: a fresh state directory, an empty source folder, and no process left behind at its end.

    Orphans among what it starts become children of this process, so that nothing is missed: one at a time.

    Attributes:
        path: a short folder for whatever a row needs; removed at the end.
        source: an empty folder in `path`.
        environ: of the programs: nothing of the caller's tony or Python settings.
    """

    def __enter__(self) -> Workshop:
        set_child_subreaper()
        self.path = Path(tempfile.mkdtemp(prefix="tony-bench-"))
        self.source = self.path / "source"
        self.source.mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("TONY_", "PYTHON"))}
        self.environ: Mapping[str, str] = {
            **kept,
            "TONY_HOME": str(self.path / "home"),
            "XDG_CONFIG_HOME": str(self.path / "config"),
            "TERM": "xterm",
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_all()
        shutil.rmtree(self.path, ignore_errors=True)

    def start(self, command: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        """Starts a program in the empty folder; `more` is for Popen."""
        given = {"cwd": self.source, "env": self.environ, "stdin": subprocess.DEVNULL, "start_new_session": True}
        return subprocess.Popen(command, **{**given, **more})

    def run(self, command: Sequence[str], *, check: bool = True) -> Finished:
        """Runs a program to its end and waits for everything that it started.

        Raises:
            CannotRunError: it failed, and `check` is set.
        """
        with tempfile.TemporaryFile(dir=self.path) as output:
            begin = time.monotonic()
            program = self.start(command, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(program.pid, 0)
            wall = time.monotonic() - begin
            program.returncode = os.waitstatus_to_exitcode(status)
            cpu = cpu_of(usage) + wait_all()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if check and program.returncode:
            raise CannotRunError(f"{' '.join(command)} ended with {program.returncode}: {text[-2000:]}")
        return Finished(code=program.returncode, output=text, wall=wall, cpu=cpu)

    def submit(self, *words: str) -> Path:
        """`tony run -d` with these words; answers the job's folder."""
        done = subprocess.run(
            tony("run", "-d", "--json", *words),
            cwd=self.source,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        if done.returncode:
            raise CannotRunError(f"tony run {' '.join(words)} ended with {done.returncode}: {done.stderr.decode()}")
        return Path(json.loads(done.stdout)["folder"])

    def ask(self, *words: str) -> Any:
        """What a command of tony answers in JSON."""
        return json.loads(subprocess.run(tony(*words), env=self.environ, capture_output=True, check=True).stdout)


def tony(*words: str) -> list[str]:
    """The command line of this environment's `tony`."""
    path = Path(sysconfig.get_path("scripts")) / "tony"
    if not path.exists():
        raise CannotRunError(f"there is no {path}: make env")
    return [str(path), *words]


def interpreter() -> str:
    """The interpreter that runs the bench, by its full path. Programs of both sides run on it.

    No version manager's shim, and not the installation behind its environment either: packages of a whole machine may
    make that one start three times slower, which would flatter tony.
    """
    return sys.executable


def cpu_of(usage: resource.struct_rusage) -> float:
    """Seconds of user and system time."""
    return usage.ru_utime + usage.ru_stime


def wait_all(programs: Sequence[subprocess.Popen[bytes]] = (), patience: float = TIMEOUT_SECONDS) -> float:
    """Waits for every child and every orphan that became one.

    Args:
        programs: children started with Popen, whose exit codes are kept in them.

    Returns:
        Their CPU seconds, with those of the children that they waited for.

    Raises:
        CannotRunError: some still live after `patience` seconds.
    """
    mine = {program.pid: program for program in programs}
    cpu = 0.0
    deadline = time.monotonic() + patience
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu
        if pid:
            cpu += cpu_of(usage)
            if pid in mine:
                mine[pid].returncode = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            raise CannotRunError(f"processes still live after {patience:.0f} s: {descendants(os.getpid())}")
        else:
            time.sleep(_TICK)


def end_all() -> None:
    """Kills whatever a measurement left behind. A measurement that went well has left nothing."""
    for _ in range(100):
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)
    print("some processes of the measurement do not die", file=sys.stderr)
