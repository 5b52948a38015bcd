"""Ending all that a container or a whole job has started, by every handle there is on it.

Programs and what they start carry `TONY_TASK=<job>/<container>/...` in their environment, executors
`TONY_EXECUTOR=<job>/<container>/`; a control group, where there is one, holds what has cleared its environment; and
what has lost its parent becomes a child of the application master, which is a subreaper.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from tony.dataclass import dataclass
from tony.linux import cgroup, process
from tony.linux.numbers import whole

EXECUTOR_VARIABLE = "TONY_EXECUTOR"
PROGRAM_VARIABLE = "TONY_TASK"
_MARKERS = (PROGRAM_VARIABLE, EXECUTOR_VARIABLE)
#: Seconds that an executor's watchdog may take to end what the executor left behind.
_WATCHDOG = 3.0
#: Seconds to go on killing what does not die.
_STUBBORN = 10.0


def marker(job_id: str, container: str) -> str:
    """With what the variables of everything in a container begin. The last slash keeps c-1 and c-10 apart."""
    return f"{job_id}/{container}/"


def end_container(job_id: str, container: str, groups: Sequence[str]) -> bool:
    """Ends everything of a container whose executor has ended, and removes its control group. Blocks for seconds.

    Returns:
        False if something does not die (it is stuck in the kernel); to be called again.
    """
    text = marker(job_id, container)
    _leave_to_watchdogs(text, {})
    return _end(text, groups, {})


def nothing_left(executors: Collection[int], groups: Sequence[str]) -> bool:
    """Whether the kernel says at once that an executor which has ended left nothing: then nobody need be searched for.

    Whatever it had started is below us, so what lost its parent is our child: there is none but living executors, and
    its control group can be removed. Only for a process as `end_strays` wants it, and on the thread that waits for
    its children.

    Returns:
        False also where the kernel does not list a process's children.
    """
    children = process.own_children()
    return children is not None and not _strays(children, executors) and cgroup.remove(groups, timeout=0.0)


def end_job(job_id: str, noted: Noted) -> bool:
    """Ends everything of a job, executors first; otherwise as `end_container`."""
    text = f"{job_id}/"
    executors = {pid: start for pid, start in noted.executors.items() if process.start_time(pid) == start}
    executors.update(_with_starts(process.with_marker(f"{EXECUTOR_VARIABLE}={text}")))
    family = _with_starts(below for pid in executors for below in process.descendants(pid))
    for pid in executors.keys() - family.keys():
        _kill_same(pid, executors[pid])
    _leave_to_watchdogs(text, family)
    return _end(text, noted.groups, {**executors, **family})


def end_strays(executors: Collection[int]) -> bool:
    """Kills what executors left behind that lost its parent: children of ours in sessions of their own.

    Only for a process whose other children (if any) are in its own session. Called on the thread that starts
    executors, so that none is taken for a stray between its start and its entry among `executors`.

    Returns:
        False if some were killed and are not dead yet; to be called again.
    """
    children = process.own_children()
    if children is None:
        children = process.children(os.getpid())
    all_dead = True
    for pid in _strays(children, executors):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)  # a child keeps its pid until we wait for it: nobody else is hit
            all_dead = os.waitpid(pid, os.WNOHANG)[0] == pid and all_dead
    return all_dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What was written down for whoever cleans up after us; some of it may be gone.

    Attributes:
        executors: pid -> when it started (clock ticks since boot), so that no successor of its pid is meant.
        groups: folders of control groups.
    """

    executors: Mapping[int, int]
    groups: tuple[str, ...]


def note(file: Path, *, executor: int | None = None, groups: Sequence[str] = ()) -> None:
    """Writes down what somebody else must end should we die.

    Raises:
        OSError: the file system refuses.
    """
    lines = [f"group {group}\n" for group in groups]
    if executor is not None:
        lines.append(f"executor {executor} {process.start_time(executor) or 0}\n")
    with file.open("a", encoding="utf-8") as out:
        out.writelines(lines)


def noted(file: Path) -> Noted:
    """Reads what was written down; nothing if there is no such file. Lines that a full disk cut short are left out."""
    executors, groups = {}, []
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        lines = []
    for line in lines:
        kind, _, rest = line.removesuffix("\n").partition(" ")
        pid, _, start = rest.partition(" ")
        if not line.endswith("\n"):
            continue
        if kind == "group":
            groups.append(rest)
        elif kind == "executor" and (number := whole(pid)) and (since := whole(start)) is not None:
            executors[number] = since
    return Noted(executors=executors, groups=tuple(groups))


def _strays(children: Iterable[int], executors: Collection[int]) -> list[int]:
    own_session = os.getsid(0)
    found = []
    for pid in children:
        if pid not in executors:
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) != own_session:
                    found.append(pid)
    return found


def _leave_to_watchdogs(marker: str, family: Mapping[int, int]) -> None:
    """Waits until the watchdogs of dead executors are done: they know processes that nobody else can find.

    Args:
        family: what was below the executors. Their watchdogs are among them, and root alone sees their environment.
    """
    text = f"{EXECUTOR_VARIABLE}={marker}"
    deadline = time.monotonic() + _WATCHDOG
    pause = 0.001
    while time.monotonic() < deadline:
        if not process.with_marker(text) and not any(_is_same(pid, start) for pid, start in family.items()):
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _with_starts(pids: Iterable[int]) -> dict[int, int]:
    return {pid: start for pid in pids if (start := process.start_time(pid)) is not None}


def _is_same(pid: int, start: int) -> bool:
    return process.start_time(pid) == start and process.is_alive(pid)


def _kill_same(pid: int, start: int) -> None:
    process.send(pid, signal.SIGKILL, lambda pid: process.start_time(pid) == start)


def _end(marker: str, groups: Sequence[str], family: Mapping[int, int]) -> bool:
    texts = [f"{variable}={marker}" for variable in _MARKERS]
    left: set[int] = set()

    def kill() -> Collection[int]:
        nonlocal left
        same = (pid for pid, start in family.items() if _is_same(pid, start))
        left = {*process.with_marker(*texts), *same} - {os.getpid()}
        killed = [pid for pid in left if process.send(pid, signal.SIGKILL)] + cgroup.kill(groups)
        left.update(killed)
        return killed

    process.kill_until_none(kill, _STUBBORN)
    return cgroup.remove(groups) and not left
