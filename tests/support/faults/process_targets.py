"""Find the process of a target on this machine, and inject a fault into it. The product needs no support for it.

A process is a target only if its command matches the log: pids are reused, and those of other machines mean nothing.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.plan import Fault, FaultTarget, FillDisk, Kill, ProcessKind, Stop
from tony.core.state import State, Task
from tony.linux import process


class NoTargetError(Exception):
    """The target process has not started, or has exited."""


@dataclass(frozen=True, slots=True)
class Victim:
    """One process, protected against reuse of its pid.

    Attributes:
        started: start time, in clock ticks since boot.
    """

    pid: int
    started: int

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return False if the process has exited."""
        return process.send(self.pid, number, lambda _: self.is_alive)

    @property
    def is_alive(self) -> bool:
        """Whether it is running, and not a zombie."""
        return process.start_time(self.pid) == self.started and process.is_alive(self.pid)


def find(target: FaultTarget, state: State) -> Victim:
    """Find the process of a target.

    Args:
        state: of the job, from its log.

    Raises:
        NoTargetError: it is not running on this machine.
    """
    pid = _find_pid(target, state)
    started = process.start_time(pid) if pid else None
    if not pid or started is None or not process.is_alive(pid):
        raise NoTargetError(f"{target} is not running on this machine")
    return Victim(pid, started)


def inject(victim: Victim, fault: Fault) -> None:
    """Inject a fault.

    Raises:
        NoTargetError: the process has exited.
    """
    match fault:
        case Kill():
            done = victim.send(signal.SIGKILL)
        case Stop():
            done = victim.send(signal.SIGSTOP)
        case FillDisk():
            done = _limit_files(victim, 0)
        case _:
            raise ValueError(f"{fault} is not a fault of a process")
    if not done:
        raise NoTargetError(f"process {victim.pid} has exited")


def undo(victim: Victim, fault: Fault) -> None:
    """Undo a fault, if the process is running."""
    match fault:
        case Stop():
            victim.send(signal.SIGCONT)
        case FillDisk():
            _limit_files(victim, None)


def _limit_files(victim: Victim, size: int | None) -> bool:
    """Limit the size of the files it writes. Python ignores SIGXFSZ, so writes beyond fail with EFBIG."""
    if not victim.is_alive:
        return False
    try:
        _, hard = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
    except ProcessLookupError:
        return False
    return True


# --- finding ------------------------------------------------------------------------------------------------------


def _find_pid(target: FaultTarget, state: State) -> int | None:
    if target.task is None:
        return state.am_pid if state.am_host in ("", socket.gethostname()) and _read_command(state.am_pid) else None
    task = state.tasks[target.task]
    executor = _find_executor(task)
    if not executor:
        return None
    match target.kind:
        case ProcessKind.PROGRAM:
            return task.pid if task.pid and task.living and _read_parent(task.pid) == executor else None
        case ProcessKind.WATCHDOG:  # a fork of the executor that has not called exec: its command line is the same
            others = (pid for pid in process.children(executor) if pid != task.pid)
            forks = (pid for pid in others if _read_command(pid) == _read_command(executor) and process.is_alive(pid))
            return next(forks, None)
    return executor


def _find_executor(task: Task) -> int | None:
    pid = task.executor_pid
    return pid if pid and task.container and b"tony" in _read_command(pid) else None


def _read_parent(pid: int) -> int | None:
    try:
        found = process.parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    except OSError:
        return None
    return found[0] if found else None


def _read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() if pid != os.getpid() else b""
    except OSError:
        return b""
