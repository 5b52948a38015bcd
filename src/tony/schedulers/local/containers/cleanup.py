"""Find and kill everything that a container or a whole job has started, by every handle there is.

User programs and their descendants carry `TONY_TASK=<job>/<container>/...` in their environment, executors
`TONY_EXECUTOR=<job>/<container>/`; a control group, where there is one, holds processes that cleared their environment;
and orphans become children of the application master, which is a subreaper, or of its supervisor. `OrphanCleanup`
decides which processes are ours, and how long to keep trying.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tony.linux import container_cgroup, process
from tony.linux.thread_pools import to_thread
from tony.model.state_directory import JobFolder
from tony.schedulers.local.containers.container_recovery import LaunchRecord, read_launch_record

if TYPE_CHECKING:
    from tony.schedulers.local.containers.local_container import LocalContainer
    from tony.schedulers.local.supervision.supervisor import SupervisorInfo

EXECUTOR_VARIABLE = "TONY_EXECUTOR"
PROGRAM_VARIABLE = "TONY_TASK"
_MARKERS = (PROGRAM_VARIABLE, EXECUTOR_VARIABLE)
#: Seconds that an executor's watchdog gets to kill what the executor left behind.
_WATCHDOG_SECONDS = 3.0
#: Seconds to keep killing processes that do not die.
_KILL_SECONDS = 10.0
#: Seconds between attempts to kill what does not die.
RETRY_INTERVAL_SECONDS = 0.5
#: Checks that killed orphans are dead, and seconds between them.
_ORPHAN_CHECKS = 100
_ORPHAN_CHECK_SECONDS = 0.005
#: Attempts at the job's end; each waits some seconds for processes stuck in the kernel.
_FINAL_ATTEMPTS = 3

_log = logging.getLogger(__name__)


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
    return (
        children is not None and not _find_orphans(children, executors) and container_cgroup.remove(groups, timeout=0.0)
    )


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
        killed = [pid for pid in left if process.send(pid, signal.SIGKILL)] + container_cgroup.kill(groups)
        left.update(killed)
        return killed

    process.kill_until_none(kill, _KILL_SECONDS)
    return container_cgroup.remove(groups) and not left


class OrphanCleanup:
    """Kills what is left of one job's containers, and of the job.

    Args:
        adopts_orphans: this process is a subreaper: orphans below it become its children.
        executors: pids of running executors, which are spared.
    """

    def __init__(
        self,
        folder: JobFolder,
        *,
        adopts_orphans: bool,
        supervision: SupervisorInfo | None,
        executors: Callable[[], Collection[int]],
    ) -> None:
        self._folder = folder
        self._adopts_orphans = adopts_orphans
        self._supervisor = supervision
        self._executors = executors

    @property
    def supervisor(self) -> int:
        """Pid of the supervisor, which inherits orphans of earlier AM attempts and their executors; 0 if none runs."""
        return self._supervisor.pid if self._supervisor and self._supervisor.is_running else 0

    def is_nothing_left(self, held: LocalContainer) -> bool:
        """Return True if it is known without a search that nothing of a container is left.

        Never for a container that was still copying files (the copying process is a child of the AM), nor
        for a reattached one, whose orphans are not our children.
        """
        started = held.executor is not None and not held.adopted
        return started and self._adopts_orphans and is_nothing_left(self._executors(), held.groups)

    async def interrupt(self, held: LocalContainer) -> None:
        """Kill the copying of files into a container."""
        await to_thread(end_container, self._folder.job_id, held.id, ())

    async def end(self, held: LocalContainer) -> bool:
        """Kill what is left of a container whose executor has ended; False if a process does not die."""
        dead = await to_thread(end_container, self._folder.job_id, held.id, held.groups)
        return await self._kill_orphans() and dead

    async def end_helpers(self) -> None:
        """Kill helpers of dead AM attempts, see the function."""
        if self.supervisor:
            await to_thread(end_helpers, self.supervisor)

    async def end_others(self, launched: LaunchRecord, kept: Collection[str] = ()) -> bool:
        """Kill everything of the job except the kept containers; False if a process does not die."""
        return await to_thread(end_job, self._folder.job_id, launched, kept) and await self._kill_orphans()

    async def end_all(self) -> None:
        """Kill everything of the job in a few attempts, and delete the launch record: no AM attempt follows."""
        launched = read_launch_record(self._folder.remains)
        for _ in range(_FINAL_ATTEMPTS):
            dead = await to_thread(end_job, self._folder.job_id, launched)
            if await self._kill_orphans() and dead:
                break
            await asyncio.sleep(RETRY_INTERVAL_SECONDS)
        else:
            _log.error("some processes of the job could not be killed and are left behind")
        self._folder.remains.unlink(missing_ok=True)

    async def _kill_orphans(self) -> bool:
        for _ in range(_ORPHAN_CHECKS):
            if not self._adopts_orphans or kill_orphans(self._executors(), self.supervisor):
                return True
            await asyncio.sleep(_ORPHAN_CHECK_SECONDS)
        return False
