"""Find and kill everything that a container or a whole job has started, by every handle there is.

User programs and their descendants carry `TONY_TASK=<job>/<container>/...` in their environment, executors
`TONY_EXECUTOR=<job>/<container>/`; a control group, where there is one, holds processes that cleared their environment;
and orphans become children of the application master, which is a subreaper, or of its supervisor.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.linux import cgroup, process
from tony.model.codec import from_plain, to_plain
from tony.model.strict_json import loads

EXECUTOR_VARIABLE = "TONY_EXECUTOR"
PROGRAM_VARIABLE = "TONY_TASK"
_MARKERS = (PROGRAM_VARIABLE, EXECUTOR_VARIABLE)
#: Marks a line that was cut short, so that it is not read together with the next one.
_TORN_LINE_MARK = "\0"
#: Container ids in an event log.
_NUMBER = re.compile(rb'"c-(\d{1,9})"')
#: Seconds that an executor's watchdog gets to kill what the executor left behind.
_WATCHDOG_SECONDS = 3.0
#: Seconds to keep killing processes that do not die.
_KILL_SECONDS = 10.0


def build_marker(job_id: str, container: str) -> str:
    """Return the prefix of the marker variables of a container. The last slash keeps c-1 and c-10 apart."""
    return f"{job_id}/{container}/"


def end_container(job_id: str, container: str, groups: Sequence[str]) -> bool:
    """Kill everything in a container whose executor has ended, and remove its control group. Blocks for seconds.

    Returns:
        False if a process does not die (it is stuck in the kernel); call again.
    """
    text = build_marker(job_id, container)
    _wait_for_watchdogs(lambda: process.with_marker(f"{EXECUTOR_VARIABLE}={text}"), {})
    return _end(lambda: process.with_marker(*(f"{variable}={text}" for variable in _MARKERS)), groups, {})


def is_nothing_left(executors: Collection[int], groups: Sequence[str]) -> bool:
    """Return True if the kernel tells at once that an ended executor left nothing, so that no search is needed.

    Everything it started is below us, and its orphans are our children: there must be no children but running
    executors, and the control group must be removable. Has the preconditions of `kill_orphans`; call it on the thread
    that waits for its children.

    Returns:
        False also where the kernel does not list a process's children.
    """
    children = process.list_own_children()
    return children is not None and not _find_orphans(children, executors) and cgroup.remove(groups, timeout=0.0)


def end_job(job_id: str, launched: LaunchRecord, kept: Collection[str] = ()) -> bool:
    """Kill everything of a job, executors first; otherwise as `end_container`.

    Args:
        kept: containers to spare.
    """
    spared = [held for held in launched.launched if held.container in kept]
    groups = set(launched.groups) - {group for held in spared for group in held.groups}
    pids = {held.pid for held in spared}

    def find_processes(*variables: str) -> list[int]:
        return _find_others([f"{variable}={job_id}/" for variable in variables], job_id, kept)

    executors = {
        pid: start for pid, start in launched.executors.items() if pid not in pids and process.start_time(pid) == start
    }
    executors.update(_with_starts(find_processes(EXECUTOR_VARIABLE)))
    family = _with_starts(below for pid in executors for below in process.descendants(pid))
    for pid in executors.keys() - family.keys():
        _kill_same(pid, executors[pid])
    _wait_for_watchdogs(lambda: find_processes(EXECUTOR_VARIABLE), family)
    return _end(lambda: find_processes(*_MARKERS), sorted(groups), {**executors, **family})


def kill_orphans(executors: Collection[int], supervisor: int = 0) -> bool:
    """Kill orphans that executors left behind: children of this process in other sessions.

    Only for a process whose other children (if any) are in its own session. Call it on the thread that starts
    executors, so that none is taken for an orphan between its start and its entry in `executors`.

    Args:
        supervisor: process that inherits orphans of earlier AM attempts and their executors; 0 for none.

    Returns:
        False if some were killed and are not dead yet; call again.
    """
    all_dead = (
        _kill_orphans_of(supervisor, _find_orphans(_list_children(supervisor), executors)) if supervisor else True
    )
    children = process.list_own_children()
    if children is None:
        children = process.children(os.getpid())
    for pid in _find_orphans(children, executors):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)  # a child keeps its pid until it is waited for: no other process is hit
            all_dead = os.waitpid(pid, os.WNOHANG)[0] == pid and all_dead
    return all_dead


def end_helpers(supervisor: int) -> None:
    """Kill helpers of a dead AM: its fork server, and processes that copy files into containers.

    They are the supervisor's children by now, in the session that it shares with all AM attempts. Returns when they are
    dead: then everything below them has become the supervisor's child as well.
    """
    own = os.getpid()
    deadline = time.monotonic() + _WATCHDOG_SECONDS
    while time.monotonic() < deadline:
        helpers = [pid for pid in _list_children(supervisor) if pid != own and _find_session(pid) == os.getsid(0)]
        if not any(process.is_alive(pid) for pid in helpers):
            return
        for pid in helpers:
            process.send(pid, signal.SIGKILL, lambda pid: process.parent_of(pid) == supervisor)
        time.sleep(0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A container in which an executor was started.

    Attributes:
        pid, start: the executor, and its start time (clock ticks since boot), which tells it from a later process with
            the same pid.
        devices: the container's own GPUs.
        groups: folders of its control group.
    """

    container: str
    role: str
    pid: int
    start: int
    devices: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """The launches recorded for a later AM attempt; some of the processes may have ended.

    Attributes:
        groups: folders of control groups, including those of containers that were never launched.
        executors: pid -> start time (clock ticks since boot).
    """

    launched: tuple[Launched, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def executors(self) -> Mapping[int, int]:
        return {held.pid: held.start for held in self.launched}


def record_launch(file: Path, *, launched: Launched | None = None, groups: Sequence[str] = ()) -> None:
    """Record what a later AM attempt must kill or take over if this one dies.

    Raises:
        OSError: the file system refuses.
    """
    lines = [f"group {group}\n" for group in groups]
    if launched:
        lines.append(f"launched {json.dumps(to_plain(launched), separators=(',', ':'))}\n")
    if not lines:
        return
    with file.open("a+b") as out:
        size = out.seek(0, os.SEEK_END)
        if size and (out.seek(size - 1), out.read(1))[1] != b"\n":  # cut short by a full disk, or with its writer
            lines.insert(0, f"{_TORN_LINE_MARK}\n")
        out.write("".join(lines).encode())


def read_launch_record(file: Path) -> LaunchRecord:
    """Read the recorded launches; empty if there is no such file. Skips lines that were cut short."""
    launched, groups = [], []
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        lines = []
    for line in lines:
        kind, _, rest = line.removesuffix("\n").partition(" ")
        if not line.endswith("\n") or _TORN_LINE_MARK in line:
            continue
        if kind == "group":
            groups.append(rest)
        elif kind == "launched":
            with contextlib.suppress(ValueError):
                launched.append(from_plain(Launched, loads(rest), ignore_unknown=True))
    return LaunchRecord(launched=tuple(launched), groups=tuple(groups))


def find_highest_container_number(logs: Iterable[Path]) -> int:
    """Return the highest container number in any of the event logs; 0 for none."""
    found = 0
    for log in logs:
        with contextlib.suppress(OSError), log.open("rb") as file:
            for line in file:
                found = max([found, *(int(number) for number in _NUMBER.findall(line))])
    return found


def _find_orphans(children: Iterable[int], executors: Collection[int]) -> list[int]:
    own_session = os.getsid(0)
    found = []
    for pid in children:
        if pid not in executors:
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) != own_session:
                    found.append(pid)
    return found


def _wait_for_watchdogs(found: Callable[[], Collection[int]], family: Mapping[int, int]) -> None:
    """Wait until the watchdogs of dead executors are done: only they can find some of the processes.

    Args:
        found: finds executors and their watchdogs by their environment.
        family: processes below the executors. Their watchdogs are among them, and only root can read their
            environment.
    """
    deadline = time.monotonic() + _WATCHDOG_SECONDS
    for pause in process.KILL_BACKOFF:
        if time.monotonic() >= deadline:
            break
        if not found() and not any(_is_same(pid, start) for pid, start in family.items()):
            break
        time.sleep(pause)


def _kill_orphans_of(supervisor: int, orphans: Iterable[int]) -> bool:
    """Kill children of another process, which waits for them; return True if none is alive."""
    all_dead = True
    for pid in orphans:
        if process.is_alive(pid):
            process.send(pid, signal.SIGKILL, lambda pid: process.parent_of(pid) == supervisor)
            all_dead = False
    return all_dead


def _list_children(pid: int) -> list[int]:
    found = process.children_of(pid)
    return process.children(pid) if found is None else found


def _find_session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _find_others(texts: Sequence[str], job_id: str, kept: Collection[str]) -> list[int]:
    """Return processes whose environment holds one of the texts, except those of kept containers."""
    found = process.with_marker(*texts)
    if not kept:
        return found
    names = {container.encode() for container in kept}
    pattern = re.compile(rb"TONY_(?:TASK|EXECUTOR)=" + re.escape(job_id.encode()) + rb"/([^/\0]*)/")

    def is_other(pid: int) -> bool:
        containers = pattern.findall(process.environment_of(pid))
        # The environment is empty for a moment during execve; the process may belong to a kept container.
        return bool(containers) and names.isdisjoint(containers)

    return [pid for pid in found if is_other(pid)]


def _with_starts(pids: Iterable[int]) -> dict[int, int]:
    return {pid: start for pid in pids if (start := process.start_time(pid)) is not None}


def _is_same(pid: int, start: int) -> bool:
    return process.start_time(pid) == start and process.is_alive(pid)


def _kill_same(pid: int, start: int) -> None:
    process.send(pid, signal.SIGKILL, lambda pid: process.start_time(pid) == start)


def _end(found: Callable[[], Collection[int]], groups: Sequence[str], family: Mapping[int, int]) -> bool:
    left: set[int] = set()

    def kill() -> Collection[int]:
        nonlocal left
        same = (pid for pid, start in family.items() if _is_same(pid, start))
        left = {*found(), *same} - {os.getpid()}
        killed = [pid for pid in left if process.send(pid, signal.SIGKILL)] + cgroup.kill(groups)
        left.update(killed)
        return killed

    process.kill_until_none(kill, _KILL_SECONDS)
    return cgroup.remove(groups) and not left
