"""What executors leave when they end, and application masters when they die: ended until nothing of it lives.

`cleanup` knows every handle on it; here is which of them are ours, and how long we go on.
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

#: Seconds between tries to end what does not die.
STUBBORN = 0.5
#: Looks for the end of what was just killed, and seconds between.
_STRAY_LOOKS, _STRAY_PAUSE = 100, 0.005
#: Tries at the job's end to end what is left; each waits some seconds for what is stuck in the kernel.
_LAST_TRIES = 3

_log = logging.getLogger(__name__)


class OrphanCleanup:
    """Ends what is left of one job's containers, and of the job.

    Args:
        adopts_orphans: what loses its parent below this process becomes its child.
        executors: pids of executors that live, which are no leftovers.
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
        """Whose children become what earlier application masters and their executors lose; 0 for nobody's of ours."""
        return self._supervision.pid if self._supervision and self._supervision.lives else 0

    def none_of(self, held: LocalContainer) -> bool:
        """Whether that can be seen at a glance. What lays files down is a child of ours like any other: then not.

        What an executor leaves that we have not started becomes nobody's child whom we could ask.
        """
        started = held.executor is not None and not held.adopted
        return started and self._adopts_orphans and cleanup.nothing_left(self._executors(), held.groups)

    async def interrupt(self, held: LocalContainer) -> None:
        """Ends what lays files down."""
        await to_thread(cleanup.end_container, self._folder.job_id, held.id, ())

    async def end(self, held: LocalContainer) -> bool:
        """Ends all that is left of a container whose executor has ended; False if something does not die."""
        dead = await to_thread(cleanup.end_container, self._folder.job_id, held.id, held.groups)
        return await self._end_strays() and dead

    async def end_helpers(self) -> None:
        """Ends what dead application masters of the job had for themselves: see `cleanup.end_helpers`."""
        if self.supervisor:
            await to_thread(cleanup.end_helpers, self.supervisor)

    async def end_others(self, noted: LaunchRecord, kept: Collection[str] = ()) -> bool:
        """Ends all of the job but for the containers that are kept; False if something does not die."""
        return await to_thread(cleanup.end_job, self._folder.job_id, noted, kept) and await self._end_strays()

    async def end_all(self) -> None:
        """Ends all of the job, as far as some tries can; nobody comes after us who must know of it."""
        noted = cleanup.noted(self._folder.remains)
        for _ in range(_LAST_TRIES):
            dead = await to_thread(cleanup.end_job, self._folder.job_id, noted)
            if await self._end_strays() and dead:
                break
            await asyncio.sleep(STUBBORN)
        else:
            _log.error("something of the job does not die, and is left behind")
        self._folder.remains.unlink(missing_ok=True)

    async def _end_strays(self) -> bool:
        for _ in range(_STRAY_LOOKS):
            if not self._adopts_orphans or cleanup.kill_orphans(self._executors(), self.supervisor):
                return True
            await asyncio.sleep(_STRAY_PAUSE)
        return False
