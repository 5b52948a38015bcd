"""Many jobs, for the pages: the index, and behind it the records themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any

from tony import clock
from tony.dataclass import replace
from tony.errors import StorageError, TonyError
from tony.history.index import head_of_report
from tony.jobs import facts
from tony.jobs.far import AT_ONCE, Far
from tony.linux.threads import beside
from tony.model.head import JobHead
from tony.model.ids import JOB_ID
from tony.model.layout import Home, JobFolder
from tony.model.query import JobsPage, Query
from tony.model.report import JobReport
from tony.portal.brought import Brought
from tony.portal.entry import Entry
from tony.portal.index import Index
from tony.portal.standing import Standing
from tony.portal.summaries import Record
from tony.portal.watching import Watching
from tony.schedulers.registry import is_elsewhere
from tony.storage.store import Store, joined
from tony.web.folder_view import FolderView

#: Jobs of which what was read is kept.
_KEPT = 64
#: Living masters of ours that are asked at once, seconds that one may take, and between two rounds.
_AT_ONCE, _PATIENCE, _ROUND = 50, 2.0, 2.0
#: Jobs of ours that are asked, the newest.
_MOST_ASKED = 500
#: Seconds after which what a job has used so far is written down anew, though nothing else has changed.
_USED = 60.0
#: Seconds for which what was brought of a job that runs is as good as new.
_FRESH = 3.0


class Portal:
    """As `Source`: the jobs of some locations.

    Args:
        home: our own; what we keep lies in its folder `portal`.
        stores: the locations.
        title: whose jobs these are, for people.
    """

    def __init__(self, home: Home, stores: Sequence[Store], title: str) -> None:
        self._home = home
        self._stores = {store.address: store for store in stores}
        self._title = title
        self._own = next((store.address for store in stores if _is_home(store, home)), "")
        folder = home.path / "portal"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.index = Index(folder / _index_name(home, stores))
        self._brought = Brought(folder / "brought")
        self._watching = Watching(self.index, list(stores), [self._own] if self._own else [])
        self._views: OrderedDict[tuple[str, str], FolderView] = OrderedDict()
        self._fetched: dict[str, float] = {}
        self._fetching: dict[str, asyncio.Lock] = {}
        self._bringing = asyncio.Semaphore(AT_ONCE)
        self._asking: asyncio.Task[None] | None = None
        self._written: dict[str, float] = {}

    async def start(self) -> None:
        """Begins to look through the locations."""
        self._watching.start()
        if self._own:
            self._asking = asyncio.get_running_loop().create_task(self._ask_masters())

    async def close(self) -> None:
        """Ends; may be called twice."""
        if self._asking:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking
            self._asking = None
        await beside(self._watching.close)
        self.index.close()
        for store in self._stores.values():
            store.close()

    # --- as Source ----------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """As `Source`."""
        return self._title

    async def jobs(self, query: Query) -> JobsPage:
        """As `Source`."""
        page = await beside(self.index.page, query)
        return replace(page, problems=self._watching.problems)

    async def job(self, job: str) -> FolderView | None:
        """As `Source`."""
        if not JOB_ID.fullmatch(job):
            return None
        entry = await beside(self.index.entry, job)
        if entry is None or entry.place not in self._stores:
            return await self._unlisted(job)
        store = self._stores[entry.place]
        folder = JobFolder(store.local / entry.path) if store.local else None
        if folder is None or not await beside(folder.job.exists):  # far away, or of the original
            return await self._far(store, entry)
        if entry.place != self._own and is_elsewhere(entry.head.scheduler):  # its output is brought beside a copy
            return await self._far(store, entry)
        return self._view(entry.place, folder, self._asker(entry.place, folder))

    async def place(self, job: str) -> Record | None:
        """Where its record lies; None if there is no such job."""
        if not JOB_ID.fullmatch(job):
            return None
        entry = await beside(self.index.entry, job)
        if entry is None or entry.place not in self._stores:
            ours = self._home.job(job)
            if not self._own or not await beside(ours.job.exists):
                return None
            return Record(folder=ours, own=True)
        store = self._stores[entry.place]
        folder = JobFolder(store.local / entry.path) if store.local else None
        if folder is not None and await beside(folder.job.exists):
            return Record(folder=folder, own=entry.place == self._own)
        return Record(folder=self._brought.folder(entry), store=store, path=entry.path)

    async def _unlisted(self, job: str) -> FolderView | None:
        """A job that was submitted this very moment."""
        folder = self._home.job(job)
        if not self._own or not await beside(folder.job.exists):
            return None
        return self._view(self._own, folder, self._asker(self._own, folder))

    async def _far(self, store: Store, entry: Entry) -> FolderView:
        job = entry.head.job
        async with self._fetching.setdefault(job, asyncio.Lock()):
            if clock.monotonic() - self._fetched.get(job, float("-inf")) > _FRESH:
                await beside(self._brought.bring, store, entry)
                self._fetched[job] = clock.monotonic()
        self._trim(self._fetched, self._fetching)
        folder = self._brought.folder(entry)

        async def owner() -> str:
            found = await beside(store.find, joined(entry.path, "job.json"))
            if found is None or not found.owner:
                raise StorageError("nobody knows whose the job's record is, so what lies outside of it is not shown")
            return found.owner

        far = Far(self._home, folder, owner, self._bringing, self._log_bringer(store, entry))
        return self._view(entry.place, folder, _by_log(folder), far)

    def _log_bringer(self, store: Store, entry: Entry) -> Callable[[str], Awaitable[None]]:
        """Brings what a task has printed from where the record lies, if that was not done just now."""
        done: dict[str, float] = {}
        turn = asyncio.Lock()

        async def bring(task: str) -> None:
            async with turn, self._bringing:
                if clock.monotonic() - done.get(task, float("-inf")) > _FRESH:
                    await beside(self._brought.bring_logs, store, entry, task)
                    done[task] = clock.monotonic()

        return bring

    def _asker(self, place: str, folder: JobFolder) -> Callable[[], Awaitable[JobReport]]:
        if place == self._own:
            return lambda: facts.report(self._home, folder.job_id)
        return _by_log(folder)

    def _view(
        self, place: str, folder: JobFolder, ask: Callable[[], Awaitable[JobReport]], far: Far | None = None
    ) -> FolderView:
        key = place, folder.job_id
        view = self._views.get(key)
        if view is None:
            far = far or (Far(self._home, folder, slots=self._bringing) if place == self._own else None)
            view = self._views[key] = FolderView(folder, ask, far)
        self._views.move_to_end(key)
        while len(self._views) > _KEPT:
            self._views.popitem(last=False)
        return view

    def _trim(self, *memories: dict[str, Any]) -> None:
        for memory in memories:
            while len(memory) > 4 * _KEPT:
                memory.pop(next(iter(memory)))

    # --- our own living jobs ------------------------------------------------------------------------------------------

    async def _ask_masters(self) -> None:
        """How they stand only they know; one that died is closed on the way."""
        slots = asyncio.Semaphore(_AT_ONCE)
        while True:
            try:
                if await beside(self.index.claim):
                    known = await beside(self.index.still_open, self._own, _MOST_ASKED)
                    told = await asyncio.gather(*(self._ask(job, slots) for job in known))
                    news = [entry for entry in told if entry]
                    if news:
                        await beside(self.index.put, news)
            except TonyError:  # the watch says what is wrong with the index
                pass
            await asyncio.sleep(_ROUND)

    async def _ask(self, job: str, slots: asyncio.Semaphore) -> Entry | None:
        """What is new; None if nothing is, or nobody knows."""
        async with slots:
            try:
                async with asyncio.timeout(_PATIENCE + 1.0):
                    report = await facts.report(self._home, job, _PATIENCE)
            except (TonyError, TimeoutError):
                return None
            entry = await beside(self.index.entry, job)
        if entry is None or entry.place != self._own:
            return None
        head = replace(head_of_report(report), pinned=entry.head.pinned)
        if _but_used(head) == _but_used(entry.head) and clock.monotonic() - self._written.get(job, 0.0) < _USED:
            return None
        self._written[job] = clock.monotonic()
        self._trim(self._written)
        return replace(entry, head=head, stamp="")


def _by_log(folder: JobFolder) -> Callable[[], Awaitable[JobReport]]:
    """Asks a job's event log, which is read on."""
    standing = Standing(folder)
    return lambda: beside(standing.report)


def _but_used(head: JobHead) -> JobHead:
    return replace(head, gpu_hours=None, gb_hours=None)


def _index_name(home: Home, stores: Sequence[Store]) -> str:
    """Whoever shows the same locations shares an index; of others there is nothing in it.

    One for each host: what SQLite shares between readers and writer does not reach another one.
    """
    if len(stores) == 1 and _is_home(stores[0], home):
        return f"index-{_host()}.db"
    addresses = "\n".join(sorted(store.address for store in stores))
    return f"index-{_host()}-{sha256(addresses.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}.db"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64] or "here"


def _is_home(store: Store, home: Home) -> bool:
    return store.local is not None and os.path.realpath(store.local) == os.path.realpath(home.path)
