"""Kill what executors leave behind when they end, and AM attempts when they die.

`cleanup` has the handles; this module decides which processes are ours, and how long to keep trying.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from tony.linux.threads import to_thread
from tony.model.layout import JobFolder
from tony.schedulers.local import cleanup
from tony.schedulers.local.cleanup import LaunchRecord
from tony.schedulers.local.container import LocalContainer
from tony.schedulers.local.supervisor import SupervisorInfo

#: Seconds between attempts to kill what does not die.
STUBBORN = 0.5
#: Checks that killed orphans are dead, and seconds between them.
_STRAY_LOOKS, _STRAY_PAUSE = 100, 0.005
#: Attempts at the job's end; each waits some seconds for processes stuck in the kernel.
_LAST_TRIES = 3

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
        self._supervision = supervision
        self._executors = executors

    @property
    def supervisor(self) -> int:
        """Pid of the supervisor, which inherits orphans of earlier AM attempts and their executors; 0 if none runs."""
        return self._supervision.pid if self._supervision and self._supervision.lives else 0

    def none_of(self, held: LocalContainer) -> bool:
        """Return True if it is known without a search that nothing of a container is left.

        Never for a container that was still copying files (the copying process is a child of ours like any other), nor
        for a reattached one, whose orphans are not our children.
        """
        started = held.executor is not None and not held.adopted
        return started and self._adopts_orphans and cleanup.nothing_left(self._executors(), held.groups)

    async def interrupt(self, held: LocalContainer) -> None:
        """Kill the copying of files into a container."""
        await to_thread(cleanup.end_container, self._folder.job_id, held.id, ())

    async def end(self, held: LocalContainer) -> bool:
        """Kill what is left of a container whose executor has ended; False if a process does not die."""
        dead = await to_thread(cleanup.end_container, self._folder.job_id, held.id, held.groups)
        return await self._end_strays() and dead

    async def end_helpers(self) -> None:
        """Kill helpers of dead AM attempts, see `cleanup.end_helpers`."""
        if self.supervisor:
            await to_thread(cleanup.end_helpers, self.supervisor)

    async def end_others(self, noted: LaunchRecord, kept: Collection[str] = ()) -> bool:
        """Kill everything of the job except the kept containers; False if a process does not die."""
        return await to_thread(cleanup.end_job, self._folder.job_id, noted, kept) and await self._end_strays()

    async def end_all(self) -> None:
        """Kill everything of the job in a few attempts, and delete the launch record: no AM attempt follows."""
        noted = cleanup.noted(self._folder.remains)
        for _ in range(_LAST_TRIES):
            dead = await to_thread(cleanup.end_job, self._folder.job_id, noted)
            if await self._end_strays() and dead:
                break
            await asyncio.sleep(STUBBORN)
        else:
            _log.error("some processes of the job could not be killed and are left behind")
        self._folder.remains.unlink(missing_ok=True)

    async def _end_strays(self) -> bool:
        for _ in range(_STRAY_LOOKS):
            if not self._adopts_orphans or cleanup.kill_orphans(self._executors(), self.supervisor):
                return True
            await asyncio.sleep(_STRAY_PAUSE)
        return False
