"""Find the process of a target on this machine, and inject a fault into it. The product needs no support for it.

A process is a target only if its command matches the log: pids are reused, and those of other machines mean nothing.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.plan import FaultTarget, FillDisk, Harm, Kill, ProcessKind, Slow, Stop
from tests.support.faults.plan_parser import who
from tony.core.state import State, Task
from tony.linux import process
from tony.model.ids import TaskId

#: Seconds of one period of a slowed process, which runs for a part of it.
TURN = 0.1
_FORK_SERVER = b"tony.schedulers.local.containers.fork_server"
_SUPERVISOR = b"supervisor"


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
        return process.send(self.pid, number, lambda _: self.lives)

    @property
    def lives(self) -> bool:
        """Whether it is running, and not a zombie."""
        return process.start_time(self.pid) == self.started and process.is_alive(self.pid)


def find(target: FaultTarget, state: State) -> Victim:
    """Find the process of a target.

    Args:
        state: of the job, from its log.

    Raises:
        NoTargetError: it is not running on this machine.
    """
    if target.task is None and target.any_of is not None:
        raise NoTargetError(f"there is no {who(target)}")
    finders: dict[ProcessKind, Callable[[State, TaskId | None], int | None]] = {
        ProcessKind.MASTER: lambda state, _: _master(state),
        ProcessKind.SUPERVISOR: lambda state, _: _supervisor(state),
        ProcessKind.FORK_SERVER: lambda state, _: _fork_server(state),
        ProcessKind.EXECUTOR: lambda state, task: _executor(_task(state, task)),
        ProcessKind.PROGRAM: lambda state, task: _program(_task(state, task)),
        ProcessKind.WATCHDOG: lambda state, task: _watchdog(_task(state, task)),
    }
    pid = finders[target.part](state, target.task)
    started = process.start_time(pid) if pid else None
    if not pid or started is None or not process.is_alive(pid):
        raise NoTargetError(f"{who(target)} is not running on this machine")
    return Victim(pid, started)


def inject(victim: Victim, harm: Harm) -> None:
    """Inject a fault. The caller suspends and resumes a slowed process in turn.

    Raises:
        NoTargetError: the process has exited.
    """
    match harm:
        case Kill():
            done = victim.send(signal.SIGKILL)
        case Stop() | Slow():
            done = victim.send(signal.SIGSTOP)
        case FillDisk():
            done = _limit_files(victim, 0)
        case _:
            raise ValueError(f"{harm} is not a fault of a process")
    if not done:
        raise NoTargetError(f"process {victim.pid} has exited")


def undo(victim: Victim, harm: Harm) -> None:
    """Undo a fault, if the process is running."""
    match harm:
        case Stop() | Slow():
            victim.send(signal.SIGCONT)
        case FillDisk():
            _limit_files(victim, resource.RLIM_INFINITY)


def _limit_files(victim: Victim, size: int) -> bool:
    """Limit the size of the files it writes. Python ignores SIGXFSZ, so writes beyond fail with EFBIG."""
    if not victim.lives:
        return False
    try:
        _, hard = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (size if size == 0 else hard, hard))
    except ProcessLookupError:
        return False
    return True


# --- finding ------------------------------------------------------------------------------------------------------


def _task(state: State, task: TaskId | None) -> Task:
    found = state.tasks.get(task) if task else None
    if found is None:
        raise NoTargetError(f"the job has no task {task}")
    return found


def _master(state: State) -> int | None:
    if state.am_host not in ("", socket.gethostname()) or not _command(state.am_pid):
        return None
    return state.am_pid


def _supervisor(state: State) -> int | None:
    """Return the parent of the AM if it is a supervisor."""
    master = _master(state)
    parent = _parent(master) if master else None
    return parent if parent and _SUPERVISOR in _command(parent) else None


def _fork_server(state: State) -> int | None:
    above = [pid for pid in (_master(state), _supervisor(state)) if pid]
    found = (pid for parent in above for pid in process.children(parent) if _FORK_SERVER in _command(pid))
    return next((pid for pid in found if process.is_alive(pid)), None)


def _executor(task: Task) -> int | None:
    pid = task.executor_pid
    return pid if pid and task.container and b"tony" in _command(pid) else None


def _program(task: Task) -> int | None:
    pid, executor = task.pid, _executor(task)
    return pid if pid and task.living and executor and _parent(pid) == executor else None


def _watchdog(task: Task) -> int | None:
    """Return a fork of the executor that has not called exec: its command line is the same."""
    executor = _executor(task)
    if not executor:
        return None
    found = (pid for pid in process.children(executor) if pid != task.pid and _command(pid) == _command(executor))
    return next((pid for pid in found if process.is_alive(pid)), None)


def _parent(pid: int) -> int | None:
    try:
        found = process.parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    except OSError:
        return None
    return found[0] if found else None


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() if pid != os.getpid() else b""
    except OSError:
        return b""
