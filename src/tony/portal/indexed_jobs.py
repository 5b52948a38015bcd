"""The jobs of a portal: the index for lists, and job directories for single jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from tony import clock
from tony.errors import TonyError
from tony.jobs.directory.view import PAGE_STATUS_SECONDS, DirectoryJobView
from tony.jobs.remote.remote_job_files import RemoteJobFiles, create_fetch_slots
from tony.jobs.status import job_status
from tony.jobs.status.report_from_log import StatusFromLog
from tony.linux.thread_pools import LISTS, OTHERS, STORES, lock_held, to_thread
from tony.model.ids import JOB_ID
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead, head_of_report
from tony.model.state_directory import Home, JobFolder
from tony.portal.histories.history_locations import is_own_location, is_state_directory, split_file_system
from tony.portal.histories.job_dir_copies import RecordCache
from tony.portal.histories.job_dir_location import JobDirLocation, find_owner
from tony.portal.histories.scan_threads import ScanThreads
from tony.portal.job_index.index import JobIndex
from tony.portal.job_index.index_schema import IndexEntry
from tony.schedulers.registry import has_remote_logs
from tony.storage.stores.local_store import JobDirectory
from tony.storage.stores.store_interface import FileStore

#: Cached job views, and their maximum bytes in memory.
_MAX_VIEWS = 64
_MAX_VIEW_BYTES = 64 << 20
#: For polling the user's own running AMs.
_CONCURRENT_POLLS = 50
_POLL_TIMEOUT_SECONDS = 2.0
_POLL_INTERVAL_SECONDS = 2.0
#: Maximum own jobs whose AMs are queried, the newest.
_MAX_QUERIED_JOBS = 500
#: Seconds after which a job's resource usage is indexed again, even if nothing else has changed.
_USAGE_SECONDS = 60.0
#: Seconds for which a copy of a running job is fresh: of a remote one, and of one on this machine.
_FRESH_SECONDS = 3.0
_LOCAL_FRESH_SECONDS = 1.0


class PortalView(DirectoryJobView):
    """A `DirectoryJobView` that knows the location of its job.

    Attributes:
        place: location of the job directory.
    """

    def __init__(self, place: JobDirLocation, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.place = place


class IndexedJobs:
    """The job provider of the portal: the jobs of some locations.

    Args:
        home: the user's state directory; the portal's own files are in its folder `portal`.
        stores: the locations.
        title: for display.
    """

    def __init__(self, home: Home, stores: Sequence[FileStore], title: str) -> None:
        self._home = home
        self._stores = {store.address: store for store in stores}
        self._title = title
        self._own = next((store.address for store in stores if is_own_location(store, home)), "")
        folder = home.path / "portal"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.index = JobIndex(folder / _build_index_name(home, stores))
        self._cache = RecordCache(folder / "brought")
        self._scan_threads = ScanThreads(self.index, list(stores), [self._own] if self._own else [])
        self._views: OrderedDict[tuple[str, str, tuple[int, ...]], PortalView] = OrderedDict()
        self._file_systems = {split_file_system(store.address) for store in stores if store.local is None}
        self._fetched_at: dict[str, float] = {}
        # By folder, for as long as a view or a request uses it; accessed only from the event loop.
        self._copying: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._fetch_slots = create_fetch_slots()
        self._polling: asyncio.Task[None] | None = None
        self._indexed_at: dict[str, float] = {}

    async def start(self) -> None:
        """Start scanning the locations."""
        self._scan_threads.start()
        if self._own:
            self._polling = asyncio.get_running_loop().create_task(self._poll_ams())

    async def close(self) -> None:
        """Stop scanning and close all locations. May be called twice."""
        if self._polling:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling
            self._polling = None
        await to_thread(self._scan_threads.close)
        self.index.close()
        for store in self._stores.values():
            store.close()

    # --- job provider -------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return self._title

    async def list_jobs(self, query: Query) -> JobsPage:
        page = await LISTS.run(self.index.query_page, query)
        return replace(page, problems=self._scan_threads.problems)

    async def find_job(self, job: str) -> PortalView | None:
        if not JOB_ID.fullmatch(job):
            return None
        entry = await LISTS.run(self.index.find_entry, job)
        if entry is None or entry.place not in self._stores:
            return await self._find_unlisted_view(job)
        store = self._stores[entry.place]
        if entry.place == self._own and store.local:
            folder = JobFolder(store.local / entry.path)
            if await to_thread(_is_own, folder):  # else it is another user's, or LinkedIn TonY's
                return self._create_own_view(folder)
        return await self._create_foreign_view(store, entry)

    def has_file_system_of(self, address: str) -> bool:
        """Return True if an address is in the same file system as one of the locations."""
        return split_file_system(address) in self._file_systems

    async def _find_unlisted_view(self, job: str) -> PortalView | None:
        """Return a job of the state directory that is not indexed yet."""
        folder = self._home.job(job)
        if not self._own or not await to_thread(_is_own, folder):
            return None
        return self._create_own_view(folder)

    def _create_own_view(self, folder: JobFolder) -> PortalView:
        def make() -> PortalView:
            remote = RemoteJobFiles(self._home, folder, slots=self._fetch_slots)
            place = JobDirLocation(folder=folder, own=True)
            return PortalView(place, folder, None, remote, status_seconds=PAGE_STATUS_SECONDS)

        return self._find_view((self._own, folder.job_id, ()), make)

    async def _create_foreign_view(self, store: FileStore, entry: IndexEntry) -> PortalView | None:
        """Return a job of another user or file system: a copy of its directory, with its logs where they are."""
        run = _find_runner(store)
        held = await run(store.hold, entry.path)
        if held is None:
            return None
        identity = held.identity if isinstance(held, JobDirectory) else ()
        key = entry.place, entry.head.job, identity
        if key in self._views:  # the view holds the same directory open
            held = self._views[key].place.store or held
        folder = self._cache.find_folder(entry, identity)
        logs_here = isinstance(held, JobDirectory) and not has_remote_logs(entry.head.scheduler)
        lock = self._copying.setdefault(str(folder.path), threading.Lock())
        refresh = partial(run, partial(self._update_copy, held, entry, folder, lock, logs=not logs_here))
        if not self._is_fresh(folder, held):
            await refresh()
        self._trim(self._fetched_at)

        def make() -> PortalView:
            place = JobDirLocation(folder=folder, store=held, path=entry.path)
            view = partial(
                PortalView,
                place,
                folder,
                _create_log_report(folder, refresh),
                refresh=refresh,
                status_seconds=PAGE_STATUS_SECONDS,
                is_own=False,
            )
            if isinstance(held, JobDirectory) and logs_here:
                return view(files=(held, entry.path))

            async def load_owner() -> str:
                found: str = await run(find_owner, held, entry.path)
                return found

            remote = RemoteJobFiles(
                self._home,
                folder,
                load_owner,
                self._fetch_slots,
                self._create_log_fetcher(held, entry, folder),
                has_all=held.has_tails,
            )
            return view(remote)

        return self._find_view(key, make)

    def _is_fresh(self, folder: JobFolder, store: FileStore) -> bool:
        age = clock.monotonic() - self._fetched_at.get(str(folder.path), float("-inf"))
        return age <= (_LOCAL_FRESH_SECONDS if store.local else _FRESH_SECONDS)

    def _update_copy(
        self, store: FileStore, entry: IndexEntry, folder: JobFolder, lock: threading.Lock, *, logs: bool
    ) -> None:
        """Update the copy of a job directory, unless it is fresh.

        Runs in a thread of the requesting user, so that users do not wait for each other's threads, nor long for a copy
        that another user's request is making.
        """
        key = str(folder.path)
        with lock_held(lock, f"the record of {folder.job_id} is being copied"):
            if not self._is_fresh(folder, store):
                self._cache.fetch(store, entry, folder, logs=logs)
                self._fetched_at[key] = clock.monotonic()

    def _create_log_fetcher(
        self, store: FileStore, entry: IndexEntry, folder: JobFolder
    ) -> Callable[[str], Awaitable[None]]:
        """Return a function that copies the logs of a task from the job directory, unless they are fresh."""
        done: dict[str, float] = {}
        copy_lock = threading.Lock()

        def fetch_now(task: str) -> None:
            with lock_held(copy_lock, f"the logs of {folder.job_id} are being copied"):
                if clock.monotonic() - done.get(task, float("-inf")) > _FRESH_SECONDS:
                    self._cache.fetch_logs(store, entry, folder, task)
                    done[task] = clock.monotonic()

        async def fetch(task: str) -> None:
            await _find_runner(store)(fetch_now, task)

        return fetch

    def _find_view(self, key: tuple[str, str, tuple[int, ...]], make: Callable[[], PortalView]) -> PortalView:
        view = self._views.get(key)
        if view is None:
            for other in [other for other in self._views if other[:2] == key[:2]]:
                del self._views[other]  # of another directory that was at the same path before
            view = self._views[key] = make()
        self._views.move_to_end(key)
        spare = _MAX_VIEW_BYTES - sum(each.weight for each in self._views.values())
        while len(self._views) > 1 and (len(self._views) > _MAX_VIEWS or spare < 0):
            _, oldest = self._views.popitem(last=False)
            spare += oldest.weight
        return view

    def _trim(self, memory: dict[str, float]) -> None:
        while len(memory) > 4 * _MAX_VIEWS:
            memory.pop(next(iter(memory)))

    # --- own running jobs ---------------------------------------------------------------------------------------------

    async def _poll_ams(self) -> None:
        """Index the status of own running jobs, which only their AMs know; jobs whose AM died are finalized."""
        slots = asyncio.Semaphore(_CONCURRENT_POLLS)
        while True:
            try:
                if await LISTS.run(self.index.claim):
                    known = await LISTS.run(self.index.find_still_open, self._own, _MAX_QUERIED_JOBS)
                    polled = await asyncio.gather(*(self._poll_am(job, slots) for job in known))
                    news = [entry for entry in polled if entry]
                    if news:
                        await LISTS.run(self.index.put, news)
            except TonyError:  # the scan threads report problems of the index
                pass
            await asyncio.sleep(_POLL_INTERVAL_SECONDS)

    async def _poll_am(self, job: str, slots: asyncio.Semaphore) -> IndexEntry | None:
        """Return the changed entry of a job; None if it is unchanged or its status unknown."""
        async with slots:
            try:
                async with asyncio.timeout(_POLL_TIMEOUT_SECONDS + 1.0):
                    report = await job_status.load_report(self._home, job, _POLL_TIMEOUT_SECONDS)
            except (TonyError, TimeoutError):
                return None
            entry = await LISTS.run(self.index.find_entry, job)
        if entry is None or entry.place != self._own:
            return None
        head = replace(head_of_report(report), pinned=entry.head.pinned)
        if (
            _drop_usage(head) == _drop_usage(entry.head)
            and clock.monotonic() - self._indexed_at.get(job, 0.0) < _USAGE_SECONDS
        ):
            return None
        self._indexed_at[job] = clock.monotonic()
        self._trim(self._indexed_at)
        return replace(entry, head=head, stamp="")


def _find_runner(store: FileStore) -> Callable[..., Awaitable[Any]]:
    """Return the lane for blocking work on a store: remote stores have separate threads."""
    return OTHERS.run if store.local else STORES.run


def _create_log_report(folder: JobFolder, refresh: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[JobReport]]:
    """Return a function that reads a job's status from the copy of its event log, incrementally."""
    standing = StatusFromLog(folder, own=False)

    async def load() -> JobReport:
        await refresh()
        return await OTHERS.run(standing.load_report)

    return load


def _drop_usage(head: JobHead) -> JobHead:
    return replace(head, gpu_hours=None, gb_hours=None)


def _build_index_name(home: Home, stores: Sequence[FileStore]) -> str:
    """Return the index's file name, derived from the host and the locations.

    SQLite's shared memory does not work across hosts, so each host has its own index.
    """
    if len(stores) == 1 and is_state_directory(stores[0], home):
        return f"index-{_find_host()}.db"
    addresses = "\n".join(sorted(store.address for store in stores))
    return f"index-{_find_host()}-{sha256(addresses.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}.db"


def _find_host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64] or "here"


def _is_own(folder: JobFolder) -> bool:
    """Return True if the user of this process has a job there."""
    try:
        return folder.path.lstat().st_uid == folder.job.lstat().st_uid == os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False
