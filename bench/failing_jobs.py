"""Programs that record their start, and jobs of four of them with injected faults: shared by the rows about failures.

A program first writes a line into a file: its rank, its pid, and the time. So the moment at which all four run again is
taken in the same way for every launcher and host: the latest of the four lines that follow the kill.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from calendar import timegm
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.harness import CannotRunError
from bench.measured_processes import TIMEOUT_SECONDS, Workshop, interpreter, tony
from bench.process_facts import status_of
from tony.errors import TonyError
from tony.history.event_log import read, segments
from tony.jobs import am_client
from tony.model.job_report import JobReport
from tony.model.state_directory import JobFolder
from tony.model.states import JobState, TaskState

#: Programs of a job.
TASKS = 4
NS = 1e-9
#: Seconds that a job has run before a fault is injected: it has started completely.
SETTLE = 1.0
_TICK = 0.002
_SAY = """\
import os, time
at = time.time_ns()
rank = os.environ.get("RANK", os.environ.get("TASK_INDEX"))
file = os.open("{starts}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
os.write(file, f"{{rank}} {{os.getpid()}} {{at}}\\n".encode())
os.close(file)
"""
_WAIT = """\
while not os.path.exists("{go}"):
    time.sleep(0.05)
"""
#: A thread that locks a mutex twice: like a collective whose peer is gone, a call that no signal interrupts, so that
#: Python never gets to run what was to handle SIGTERM.
_HANG = """\
import ctypes, signal
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
mutex = ctypes.create_string_buffer(256)
lock = ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
lock(mutex)
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One program began: `at` is in nanoseconds since 1970."""

    rank: int
    pid: int
    at: int


class Programs:
    """The program of one job after the other, and what it has said.

    Args:
        stuck: it handles SIGTERM and sits in a collective; otherwise it sleeps, and SIGTERM ends it.

    Attributes:
        script: its file.
    """

    def __init__(self, folder: Path, *, stuck: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self._starts, self._go = folder / "starts", folder / "go"
        self.script = folder / "program.py"
        text = (_SAY + (_HANG if stuck else _WAIT)).format(starts=self._starts, go=self._go)
        self.script.write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        """On the interpreter that all ways share."""
        return [interpreter(), str(self.script)]

    def clean(self) -> None:
        """For the next job."""
        for path in (self._starts, self._go):
            path.unlink(missing_ok=True)

    def let_go(self) -> None:
        """They end well, unless they are stuck."""
        self._go.touch()

    def starts(self) -> list[Start]:
        """All so far, in their order."""
        try:
            lines = self._starts.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Start(rank=int(rank), pid=int(pid), at=int(at)) for rank, pid, at in (line.split() for line in lines)]

    def wait(self, count: int, *, patience: float = TIMEOUT_SECONDS) -> list[Start]:
        """Wait until `count` programs have started in all."""
        return until(lambda: found if len(found := self.starts()) >= count else None, f"{count} starts", patience)

    def kill_one(self) -> tuple[int, int]:
        """Kills the program of rank 1 as the machine does; answers the moment, and how many had started."""
        before = self.starts()
        pid = next(start.pid for start in reversed(before) if start.rank == 1)
        return kill(pid), len(before)

    def lost(self) -> int:
        """Return the number of started programs that have ended."""
        return sum(status_of(start.pid).get("State", "Z").startswith("Z") for start in self.starts())

    def all_again(self, killed: int, before: int) -> float:
        """Waits until four more have started; seconds from the kill to the last of them."""
        return (max(start.at for start in self.wait(before + TASKS)[before:]) - killed) * NS


def kill(pid: int) -> int:
    """`kill -9`; the moment in nanoseconds since 1970."""
    at = time.time_ns()
    os.kill(pid, signal.SIGKILL)
    return at


def until(found: Callable[[], T | None], what: str, patience: float = TIMEOUT_SECONDS) -> T:
    """Waits for something.

    Raises:
        CannotRunError: in vain.
    """
    deadline = time.monotonic() + patience
    while (result := found()) is None:
        if time.monotonic() > deadline:
            raise CannotRunError(f"in vain waited {patience:.0f} s for {what}")
        time.sleep(_TICK)
    return result


# --- a job of tony ------------------------------------------------------------------------------------------------


class LocalJob:
    """A context: a job of four on this machine that runs and has settled. It is ended with all that it has.

    Attributes:
        folder: its record.
    """

    def __init__(self, shop: Workshop, programs: Programs, *settings: str) -> None:
        self._shop, self._programs = shop, programs
        self._words = [word for each in settings for word in ("--set", each)]

    def __enter__(self) -> LocalJob:
        self._programs.clean()
        self.folder = JobFolder(
            self._shop.submit("-n", str(TASKS), "--framework", "pytorch", *self._words, "--", *self._programs.command)
        )
        self._programs.wait(TASKS)
        self.wait_full()
        time.sleep(SETTLE)
        return self

    def __exit__(self, *raised: object) -> None:
        self._programs.let_go()
        with suppress(subprocess.CalledProcessError):
            subprocess.run(
                tony("kill", "--now", self.folder.job_id), env=self._shop.environ, capture_output=True, check=True
            )
        until(lambda: True if self.folder.summary.exists() else None, f"the end of {self.folder.job_id}")

    def report(self) -> JobReport | None:
        """What its application master says; None if none answers."""
        try:
            return asyncio.run(am_client.request_report(self.folder))
        except (TonyError, OSError):
            return None

    def wait_full(self, attempt: int = 1) -> JobReport:
        """Waits until an application master answers that all run."""
        return until(lambda: full(self.report(), attempt), "all tasks in the report")

    def executors(self) -> dict[str, int | None]:
        """Task -> the pid of its executor."""
        return {task.task: task.executor_pid for task in self.wait_full().tasks}


def full(report: JobReport | None, attempt: int = 1) -> JobReport | None:
    """A report in which all tasks run, of that attempt or a later one; None if this is none."""
    if report is None or report.attempt < attempt or report.state is not JobState.RUNNING:
        return None
    return report if all(task.state is TaskState.RUNNING and task.pid for task in report.tasks) else None


_BACK = re.compile(r"^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})Z \S+ \S+: \S+ has reconnected$", re.MULTILINE)


def came_back(log: Path) -> list[int]:
    """When executors came back to an application master, by its log, in nanoseconds since 1970."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return []
    moments = []
    for found in _BACK.finditer(text):
        *moment, milliseconds = map(int, found.groups())
        moments.append(timegm((*moment, 0, 0, 0)) * 10**9 + milliseconds * 10**6)
    return moments


def events_of(folder: JobFolder, kind: str) -> Sequence[float]:
    """When events of a kind were logged, by all attempts, in seconds since 1970."""
    return [entry.wall for entry in read(segments(folder.path)) if entry.event.kind == kind]
