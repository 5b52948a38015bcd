"""Who a target is among this machine's processes, and how each is hit. Nothing here needs the product to know of it.

A pid is hit only if the process behind it is what the log says it is: another machine's pids mean nothing here, and
pids are used again.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from tony.core.state import State, Task
from tony.dataclass import dataclass
from tony.linux import process
from tony.model.ids import TaskId
from tony.testing.faults.plan import FaultTarget, FillDisk, Harm, Kill, ProcessKind, Slow, Stop
from tony.testing.faults.plan_parser import who

#: Seconds of one turn of a process that is slowed down: it runs for a part of them.
TURN = 0.1
_FORK_SERVER = b"tony.schedulers.local.fork_server"
_SUPERVISOR = b"supervisor"


class NoTargetError(Exception):
    """There is no such process now: not yet, or not any more."""


@dataclass(frozen=True, slots=True)
class Victim:
    """One process, never its pid's next owner.

    Attributes:
        started: when, in clock ticks since boot.
    """

    pid: int
    started: int

    def send(self, number: signal.Signals) -> bool:
        """Sends a signal; False if it is gone."""
        return process.send(self.pid, number, lambda _: self.lives)

    @property
    def lives(self) -> bool:
        """Whether it is there, and no zombie."""
        return process.start_time(self.pid) == self.started and process.is_alive(self.pid)


def find(target: FaultTarget, state: State) -> Victim:
    """The process that is meant.

    Args:
        state: of the job, as its log has it.

    Raises:
        NobodyThere: it does not live on this machine.
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
        raise NoTargetError(f"{who(target)} does not live here now")
    return Victim(pid, started)


def strike(victim: Victim, harm: Harm) -> None:
    """Hits it. What is slowed down is to be told `pause` and `go_on` in turn.

    Raises:
        NobodyThere: it is gone meanwhile.
    """
    match harm:
        case Kill():
            done = victim.send(signal.SIGKILL)
        case Stop() | Slow():
            done = victim.send(signal.SIGSTOP)
        case FillDisk():
            done = _limit_files(victim, 0)
        case _:
            raise ValueError(f"a process is not hit by {harm}")
    if not done:
        raise NoTargetError(f"process {victim.pid} is gone")


def undo(victim: Victim, harm: Harm) -> None:
    """Lets it live as before, if it lives at all."""
    match harm:
        case Stop() | Slow():
            victim.send(signal.SIGCONT)
        case FillDisk():
            _limit_files(victim, resource.RLIM_INFINITY)


def _limit_files(victim: Victim, size: int) -> bool:
    """No file of it grows beyond so many bytes. Python ignores SIGXFSZ, so it is told by an error (EFBIG)."""
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
    """Whoever started the master, if it is one of ours that does nothing else."""
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
    """A fork of the executor that has not become anything else: it shows the same command."""
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
