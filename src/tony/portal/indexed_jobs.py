"""Many jobs, for the pages: the index, and behind it the records themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from tony import clock
from tony.dataclass import replace
from tony.errors import TonyError
from tony.history.ended_jobs_index import head_of_report
from tony.jobs import facts
from tony.jobs.remote_record import RemoteRecord, bringing_slots
from tony.linux.threads import lock_held, to_thread
from tony.model.ids import JOB_ID
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.layout import Home, JobFolder
from tony.portal.history_location import file_system_of, is_own_location, is_state_directory
from tony.portal.index import JobIndex
from tony.portal.index_entry import IndexEntry
from tony.portal.record_cache import RecordCache
from tony.portal.scan_threads import ScanThreads
from tony.portal.status_from_log import StatusFromLog
from tony.portal.tensorboard_event_files import TensorBoardSource, find_owner
from tony.schedulers.registry import is_elsewhere
from tony.storage.local_store import JobDirectory
from tony.storage.store import FileStore
from tony.web.folder_job_view import FolderView
from tony.web.lanes import LISTS, OTHERS, STORES

#: Jobs of which what was read is kept, and bytes that it may take in memory.
_KEPT = 64
_KEPT_BYTES = 64 << 20
#: Living masters of ours that are asked at once, seconds that one may take, and between two rounds.
_AT_ONCE, _PATIENCE, _ROUND = 50, 2.0, 2.0
#: Jobs of ours that are asked, the newest.
_MOST_ASKED = 500
#: Seconds after which what a job has used so far is written down anew, though nothing else has changed.
_USED = 60.0
#: Seconds for which what was brought of a job that runs is as good as new: from far away, and from this machine.
_FRESH, _FRESH_HERE = 3.0, 1.0


class PortalView(FolderView):
    """As `JobView`.

    Attributes:
        place: where the record lies.
    """

    def __init__(self, place: TensorBoardSource, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.place = place


class IndexedJobs:
    """As `Source`: the jobs of some locations.

    Args:
        home: our own; what we keep lies in its folder `portal`.
        stores: the locations.
        title: whose jobs these are, for people.
    """

    def __init__(self, home: Home, stores: Sequence[FileStore], title: str) -> None:
        self._home = home
        self._stores = {store.address: store for store in stores}
        self._title = title
        self._own = next((store.address for store in stores if is_own_location(store, home)), "")
        folder = home.path / "portal"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.index = JobIndex(folder / _index_name(home, stores))
        self._brought = RecordCache(folder / "brought")
        self._watching = ScanThreads(self.index, list(stores), [self._own] if self._own else [])
        self._views: OrderedDict[tuple[str, str, tuple[int, ...]], PortalView] = OrderedDict()
        self._file_systems = {file_system_of(store.address) for store in stores if store.local is None}
        self._fetched: dict[str, float] = {}
        # By folder, as long as a view or a request has it; only the loop looks into it.
        self._copying: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._bringing = bringing_slots()
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
        await to_thread(self._watching.close)
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
        page = await LISTS.run(self.index.page, query)
        return replace(page, problems=self._watching.problems)

    async def job(self, job: str) -> PortalView | None:
        """As `Source`."""
        if not JOB_ID.fullmatch(job):
            return None
        entry = await LISTS.run(self.index.entry, job)
        if entry is None or entry.place not in self._stores:
            return await self._unlisted(job)
        store = self._stores[entry.place]
        if entry.place == self._own and store.local:
            folder = JobFolder(store.local / entry.path)
            if await to_thread(_is_own, folder):  # else it is another user's, or of the original
                return self._own_view(folder)
        return await self._foreign(store, entry)

    def has_file_system_of(self, address: str) -> bool:
        """Return True if an address is in the same file system as one of the locations."""
        return file_system_of(address) in self._file_systems

    async def _unlisted(self, job: str) -> PortalView | None:
        """A job that was submitted this very moment."""
        folder = self._home.job(job)
        if not self._own or not await to_thread(_is_own, folder):
            return None
        return self._own_view(folder)

    def _own_view(self, folder: JobFolder) -> PortalView:
        def make() -> PortalView:
            far = RemoteRecord(self._home, folder, slots=self._bringing)
            place = TensorBoardSource(folder=folder, own=True)
            return PortalView(place, folder, lambda: facts.load_report(self._home, folder.job_id), far, is_own=True)

        return self._view((self._own, folder.job_id, ()), make)

    async def _foreign(self, store: FileStore, entry: IndexEntry) -> PortalView | None:
        """A job of another user, or in another file system: a copy of its record, and its logs where they are."""
        run = _runner(store)
        held = await run(store.hold, entry.path)
        if held is None:
            return None
        identity = held.identity if isinstance(held, JobDirectory) else ()
        key = entry.place, entry.head.job, identity
        if key in self._views:  # it holds the same directory
            held = self._views[key].place.store or held
        folder = self._brought.folder(entry, identity)
        logs_here = isinstance(held, JobDirectory) and not is_elsewhere(entry.head.scheduler)
        lock = self._copying.setdefault(str(folder.path), threading.Lock())
        refresh = partial(run, partial(self._bring, held, entry, folder, lock, logs=not logs_here))
        if not self._is_fresh(folder, held):
            await refresh()
        self._trim(self._fetched)

        def make() -> PortalView:
            place = TensorBoardSource(folder=folder, store=held, path=entry.path)
            ask = _report_from_log(folder)
            if isinstance(held, JobDirectory) and logs_here:
                return PortalView(place, folder, ask, files=(held, entry.path), refresh=refresh)

            async def owner() -> str:
                found: str = await run(find_owner, held, entry.path)
                return found

            far = RemoteRecord(self._home, folder, owner, self._bringing, self._log_bringer(held, entry, folder))
            return PortalView(place, folder, ask, far, refresh=refresh)

        return self._view(key, make)

    def _is_fresh(self, folder: JobFolder, store: FileStore) -> bool:
        age = clock.monotonic() - self._fetched.get(str(folder.path), float("-inf"))
        return age <= (_FRESH_HERE if store.local else _FRESH)

    def _bring(
        self, store: FileStore, entry: IndexEntry, folder: JobFolder, lock: threading.Lock, *, logs: bool
    ) -> None:
        """Bring what is new of a record, if that was not done just now.

        In a thread of the user who asks: no user waits for another one's turn to have a thread, and none waits long for
        what another one copies.
        """
        key = str(folder.path)
        with lock_held(lock, f"the record of {folder.job_id} is being copied"):
            if not self._is_fresh(folder, store):
                self._brought.bring(store, entry, folder, logs=logs)
                self._fetched[key] = clock.monotonic()

    def _log_bringer(self, store: FileStore, entry: IndexEntry, folder: JobFolder) -> Callable[[str], Awaitable[None]]:
        """Brings what a task has printed from where the record lies, if that was not done just now."""
        done: dict[str, float] = {}
        turn = threading.Lock()

        def bring_now(task: str) -> None:
            with lock_held(turn, f"the logs of {folder.job_id} are being copied"):
                if clock.monotonic() - done.get(task, float("-inf")) > _FRESH:
                    self._brought.bring_logs(store, entry, folder, task)
                    done[task] = clock.monotonic()

        async def bring(task: str) -> None:
            await _runner(store)(bring_now, task)

        return bring

    def _view(self, key: tuple[str, str, tuple[int, ...]], make: Callable[[], PortalView]) -> PortalView:
        view = self._views.get(key)
        if view is None:
            for other in [other for other in self._views if other[:2] == key[:2]]:
                del self._views[other]  # of another directory, which stood at this place before
            view = self._views[key] = make()
        self._views.move_to_end(key)
        room = _KEPT_BYTES - sum(each.weight for each in self._views.values())
        while len(self._views) > 1 and (len(self._views) > _KEPT or room < 0):
            _, oldest = self._views.popitem(last=False)
            room += oldest.weight
        return view

    def _trim(self, memory: dict[str, float]) -> None:
        while len(memory) > 4 * _KEPT:
            memory.pop(next(iter(memory)))

    # --- our own living jobs ------------------------------------------------------------------------------------------

    async def _ask_masters(self) -> None:
        """How they stand only they know; one that died is closed on the way."""
        slots = asyncio.Semaphore(_AT_ONCE)
        while True:
            try:
                if await LISTS.run(self.index.claim):
                    known = await LISTS.run(self.index.still_open, self._own, _MOST_ASKED)
                    told = await asyncio.gather(*(self._ask(job, slots) for job in known))
                    news = [entry for entry in told if entry]
                    if news:
                        await LISTS.run(self.index.put, news)
            except TonyError:  # the watch says what is wrong with the index
                pass
            await asyncio.sleep(_ROUND)

    async def _ask(self, job: str, slots: asyncio.Semaphore) -> IndexEntry | None:
        """What is new; None if nothing is, or nobody knows."""
        async with slots:
            try:
                async with asyncio.timeout(_PATIENCE + 1.0):
                    report = await facts.load_report(self._home, job, _PATIENCE)
            except (TonyError, TimeoutError):
                return None
            entry = await LISTS.run(self.index.entry, job)
        if entry is None or entry.place != self._own:
            return None
        head = replace(head_of_report(report), pinned=entry.head.pinned)
        if _but_used(head) == _but_used(entry.head) and clock.monotonic() - self._written.get(job, 0.0) < _USED:
            return None
        self._written[job] = clock.monotonic()
        self._trim(self._written)
        return replace(entry, head=head, stamp="")


def _runner(store: FileStore) -> Callable[..., Awaitable[Any]]:
    """Return what runs blocking work on a store: other machines have threads of their own."""
    return OTHERS.run if store.local else STORES.run


def _report_from_log(folder: JobFolder) -> Callable[[], Awaitable[JobReport]]:
    """Asks a job's event log, which is read on."""
    standing = StatusFromLog(folder, own=False)
    return lambda: OTHERS.run(standing.report)


def _but_used(head: JobHead) -> JobHead:
    return replace(head, gpu_hours=None, gb_hours=None)


def _index_name(home: Home, stores: Sequence[FileStore]) -> str:
    """Whoever shows the same locations shares an index; of others there is nothing in it.

    One for each host: what SQLite shares between readers and writer does not reach another one.
    """
    if len(stores) == 1 and is_state_directory(stores[0], home):
        return f"index-{_host()}.db"
    addresses = "\n".join(sorted(store.address for store in stores))
    return f"index-{_host()}-{sha256(addresses.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}.db"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64] or "here"


def _is_own(folder: JobFolder) -> bool:
    """Return True if there is a job of the user of this process."""
    try:
        return folder.path.lstat().st_uid == folder.job.lstat().st_uid == os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False
