"""What of one job lies on other machines, brought here when somebody looks; and where its scheduler's own pages are.

Nobody waits for long: what takes longer is brought on, for whoever looks next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tony import clock
from tony.errors import TonyError
from tony.history.job_record import read_job
from tony.jobs import log_fetcher, remote_jobs
from tony.jobs.log_mirror import complete
from tony.jobs.log_names import STREAMS, Selection
from tony.linux.threads import Slots, to_thread
from tony.model.job_record import ORIGINAL, JobRecord
from tony.model.layout import Home, JobFolder
from tony.schedulers.interface import Submitter, WebLink

#: Seconds for which what a running job printed is as good as new, and after which what failed is tried again.
_FRESH, _AGAIN = 1.0, 15.0
#: Seconds that somebody waits who looks at output; at anything else.
_PATIENCE, _SHORT = 6.0, 1.0
#: Seconds for which the event log of a running job is as good as new.
_LOGGED = 3.0
#: Tasks whose output is brought at one time: for the program itself, for all users, for one of them.
_AT_ONCE = 4
_AT_ONCE_FOR_USERS = 8
_AT_ONCE_FOR_ONE_USER = 2
#: Work that goes on though nobody waits for it.
_WORK: set[asyncio.Task[str] | asyncio.Task[None]] = set()
_log = logging.getLogger(__name__)


def bringing_slots() -> Slots:
    """Return slots for bringing output, to be shared by many jobs."""
    return Slots(_AT_ONCE, _AT_ONCE_FOR_USERS, _AT_ONCE_FOR_ONE_USER)


class RemoteRecord:
    """One job.

    Args:
        home: our own, by which clusters are found.
        folder: of the job, here: its own in our home, or a copy of its record.
        owner: asks whose the record is where it lies, as its file system says; None: the job is of our own home.
        slots: taken while something is brought, so that a cluster that hangs holds up no more than these; None: some.
        first: brings what a task has printed from where the record lies; None: that is here.
    """

    def __init__(
        self,
        home: Home,
        folder: JobFolder,
        owner: Callable[[], Awaitable[str]] | None = None,
        slots: Slots | None = None,
        first: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._home = home
        self._folder = folder
        self._owner = owner
        self._first = first
        self._found: tuple[JobRecord, Submitter] | None = None
        self._near = False
        self._brought: dict[str, _Brought] = {}
        self._slots = slots or bringing_slots()
        self._refreshed = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None

    async def bring(self, task: str) -> str:
        """Brings what a task has printed so far.

        Returns:
            What is missing, and why; empty if nothing is.
        """
        one = self._brought.setdefault(task, _Brought())
        pause = _AGAIN if one.ended else _FRESH
        if one.work is None and clock.monotonic() - one.at >= pause:
            one.began = clock.monotonic()
            one.work = asyncio.get_running_loop().create_task(self._bring(one, task))
            _WORK.add(one.work)
            one.work.add_done_callback(_WORK.discard)
        if one.work is not None:
            await asyncio.wait([one.work], timeout=max(0.0, one.began + _PATIENCE - clock.monotonic()))
        return "It is being brought here from the cluster; look again in a moment." if one.work else one.note

    async def _bring(self, one: _Brought, task: str) -> str:
        notes: list[str] = []
        one.ended = self._folder.summary.exists()
        try:
            if self._first is not None:
                await self._first(task)
            found = await self._find()
            if found is not None:
                await self._bring_far(*found, task, notes.append, ended=one.ended)
        except (TonyError, OSError) as error:
            notes.append(" ".join(str(error).split()))
        except Exception:  # nobody waits for this piece of work: whoever looks must hear of it
            _log.exception("bringing the output of %s", task)
            notes.append("it could not be brought; the log of whoever shows this says why")
        finally:
            one.note, one.at, one.work = "; ".join(dict.fromkeys(notes)), clock.monotonic(), None
        return one.note

    async def _bring_far(
        self, record: JobRecord, submitter: Submitter, task: str, note: Callable[[str], None], *, ended: bool
    ) -> None:
        """From where the job ran."""
        if record.tony_version == ORIGINAL:
            note(f"the original TonY left it to YARN: yarn logs -applicationId {record.job_id}")
            return
        if complete(self._folder.logs).issuperset(f"{task} {stream}" for stream in STREAMS):
            return
        selection = Selection(tasks=frozenset({task}))
        async with self._slots.taken():
            if self._owner is None:
                await log_fetcher.bring(self._home, record, selection, note)
            elif not ended:
                note("the job runs: what it prints is shown by its own pages, and by `tony logs` of its user")
            else:
                owner = await self._owner()
                await log_fetcher.bring_ended(self._folder, record, submitter, selection, note, owner)

    async def refresh(self) -> None:
        """Brings what the running job has logged and measured, if that was not just done; in our own home alone."""
        if self._owner is not None or clock.monotonic() - self._refreshed < _LOGGED or await self._find() is None:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            _WORK.add(self._refreshing)
            self._refreshing.add_done_callback(_WORK.discard)
        await asyncio.wait([self._refreshing], timeout=_SHORT)

    async def _refresh(self) -> None:
        try:
            await remote_jobs.refresh(self._home, self._folder.job_id)
        except (TonyError, OSError) as error:
            _log.info("the event log of %s cannot be brought now: %s", self._folder.job_id, error)
        finally:
            self._refreshed = clock.monotonic()

    async def links(self) -> Sequence[WebLink]:
        """The scheduler's own pages that show the job.

        Raises:
            TonyError: it is not known where they would be.
        """
        found = await self._find()
        return await found[1].links(self._folder.job_id, ended=self._folder.summary.exists()) if found else ()

    async def container_links(self, containers: Mapping[str, str]) -> Mapping[str, Sequence[WebLink]]:
        """Those with what was printed in containers: id -> links.

        Args:
            containers: id -> host.

        Raises:
            TonyError: it is not known where they would be.
        """
        found = await self._find()
        if found is None or not containers:
            return {}
        user = await self._owner() if self._owner else ""
        ended = self._folder.summary.exists()
        return await found[1].container_links(self._folder.job_id, containers, user=user, ended=ended)

    async def _find(self) -> tuple[JobRecord, Submitter] | None:
        """The record, and who knows the rest; None if all of it is here."""
        if self._found is None and not self._near:
            record = await to_thread(read_job, self._folder, own=self._owner is None)
            if record is None:
                return None
            submitter = await to_thread(log_fetcher.far_submitter, self._home, record)
            if submitter is None:
                self._near = True
            else:
                self._found = record, submitter
        return self._found


class _Brought:
    """What was last done for a task.

    Attributes:
        at: when that was over; began: when what is done now was begun.
        ended: the job had ended then.
        note: what was missing.
    """

    def __init__(self) -> None:
        self.at = self.began = float("-inf")
        self.ended = False
        self.note = ""
        self.work: asyncio.Task[str] | None = None
