"""Kill what executors leave behind when they end, and AM attempts when they die.

`cleanup` has the handles; this module decides which processes are ours, and how long to keep trying.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from tony.linux.thread_pools import to_thread
from tony.model.layout import JobFolder
from tony.schedulers.local.containers import cleanup
from tony.schedulers.local.containers.cleanup import LaunchRecord
from tony.schedulers.local.containers.local_container import LocalContainer
from tony.schedulers.local.supervision.supervisor import SupervisorInfo

#: Seconds between attempts to kill what does not die.
RETRY_INTERVAL_SECONDS = 0.5
#: Checks that killed orphans are dead, and seconds between them.
_ORPHAN_CHECKS = 100
_ORPHAN_CHECK_SECONDS = 0.005
#: Attempts at the job's end; each waits some seconds for processes stuck in the kernel.
_FINAL_ATTEMPTS = 3

_log = logging.getLogger(__name__)


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
        return started and self._adopts_orphans and cleanup.is_nothing_left(self._executors(), held.groups)

    async def interrupt(self, held: LocalContainer) -> None:
        """Kill the copying of files into a container."""
        await to_thread(cleanup.end_container, self._folder.job_id, held.id, ())

    async def end(self, held: LocalContainer) -> bool:
        """Kill what is left of a container whose executor has ended; False if a process does not die."""
        dead = await to_thread(cleanup.end_container, self._folder.job_id, held.id, held.groups)
        return await self._kill_orphans() and dead

    async def end_helpers(self) -> None:
        """Kill helpers of dead AM attempts, see `cleanup.end_helpers`."""
        if self.supervisor:
            await to_thread(cleanup.end_helpers, self.supervisor)

    async def end_others(self, launched: LaunchRecord, kept: Collection[str] = ()) -> bool:
        """Kill everything of the job except the kept containers; False if a process does not die."""
        return await to_thread(cleanup.end_job, self._folder.job_id, launched, kept) and await self._kill_orphans()

    async def end_all(self) -> None:
        """Kill everything of the job in a few attempts, and delete the launch record: no AM attempt follows."""
        launched = cleanup.read_launch_record(self._folder.remains)
        for _ in range(_FINAL_ATTEMPTS):
            dead = await to_thread(cleanup.end_job, self._folder.job_id, launched)
            if await self._kill_orphans() and dead:
                break
            await asyncio.sleep(RETRY_INTERVAL_SECONDS)
        else:
            _log.error("some processes of the job could not be killed and are left behind")
        self._folder.remains.unlink(missing_ok=True)

    async def _kill_orphans(self) -> bool:
        for _ in range(_ORPHAN_CHECKS):
            if not self._adopts_orphans or cleanup.kill_orphans(self._executors(), self.supervisor):
                return True
            await asyncio.sleep(_ORPHAN_CHECK_SECONDS)
        return False
