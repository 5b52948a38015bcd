"""Keeps the index up to date with one location: full scans now and then, and frequent scans for new jobs."""

from __future__ import annotations

import logging
import queue
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tony import clock
from tony.errors import StorageError, TonyError, join_lines
from tony.portal.histories import history_layouts
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.record_reader import build_damaged_head, build_stamp, open_stamp, read
from tony.portal.job_index.index import IndexedRecord, JobIndex
from tony.portal.job_index.index_schema import IndexEntry
from tony.storage.stores.store_interface import FileStore, Item, join_path

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger(__name__)
#: Jobs queried and indexed in one batch; after some seconds a smaller batch is written.
_BATCH_JOBS = 500
_BATCH_SECONDS = 1.0
#: Concurrent reads, and seconds for one.
_THREADS = 4
MAX_PAUSE_SECONDS = 20.0
#: Unended jobs that are polled, the newest: locally, and in HDFS, where each poll is a request.
_MAX_POLLED = 2_000
_MAX_POLLED_REMOTE = 200
#: Unended jobs polled per scan where requests cost money: they take turns, so the total is as for local ones.
_POLLED_PER_SCAN = 10
#: Seconds for which the list of day folders is cached if folders have no times. No job runs in these.
_DAYS_FRESH_SECONDS = 60.0
#: Seconds in which a folder without a job may still get one: a submission fills it piece by piece.
_NEW_FOLDER_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadTask:
    """A folder to read.

    Attributes:
        item: its metadata; None if that must be read first.
        before: the index's knowledge of it, if any.
    """

    path: str
    item: Item | None
    before: IndexedRecord | None

    @property
    def place(self) -> RecordLocation:
        """The folder's location, as far as known."""
        return RecordLocation(path=self.path, item=self.item or _read_folder_item(self.path))


class _NoEntry(Enum):
    """Results of a read other than an entry: unchanged, or removed."""

    NOTHING = auto()
    MISSING = auto()


class Scanner:
    """Scans one location.

    Where folders have no times, each request may cost money. There a scan for new jobs lists only the folders in which
    new jobs can appear, reads the ones it has never seen, and polls some of the unended ones: its cost is independent
    of the size of the history, except for S3's limit of 1,000 names per request.

    Args:
        store: of the location.
        index: written by this process.
        ended: polled during a scan; True aborts it.
        polls_ams: the unended jobs are updated from their AMs, which know more than the files.
    """

    def __init__(
        self,
        store: FileStore,
        index: JobIndex,
        ended: Callable[[], bool] = lambda: False,
        *,
        polls_ams: bool = False,
    ) -> None:
        self.store = store
        self.looked_at = self.there = 0
        self._index = index
        self._ended = ended
        self._polls_ams = polls_ams
        self._seen: dict[str, float] = {}
        self._new_folders: dict[str, float] = {}
        self._days = Listings(store)
        self._days_at = float("-inf")
        self._names: dict[str, array[int]] = {}
        self._last_rounds: dict[str, int] = {}
        self._round = 0
        self._requests = self._settled = 0
        self._found = array("q")

    @property
    def requests(self) -> int:
        """Listing requests so far, as S3 counts them."""
        return self._requests + self._days.request_count

    @property
    def lasting(self) -> int:
        """Return the problems that the next scan would find again; jobs known to have ended are not read again."""
        return self.requests - self._settled

    def scan_fully(self, between: Callable[[], None] = lambda: None) -> None:
        """Read every folder that may have changed, and remove jobs from the index whose folder is gone.

        Args:
            between: called after each folder; may scan for new jobs.

        Raises:
            TonyError: the location does not answer. What was found until then is indexed.
        """
        self._seen.clear()
        self.looked_at = self.there = 0
        seen = array("q")
        listings = Listings(self.store)
        try:
            for parent in history_layouts.iterate_parents(listings):
                self._has_changed(parent)
                found = history_layouts.list_places(listings, parent)
                listings.forget(parent)
                self.there += len(found)
                seen.extend(_hash_job(place.job) for place in found)
                if not self._read_changed(found):
                    return
                self._found = array("q")
                between()
                seen.extend(self._found)
        finally:
            self._requests += listings.request_count
        self._forget(array("q", sorted(seen)))

    def scan_quickly(self) -> None:
        """Scan for new jobs, and poll unended ones.

        Raises:
            TonyError: the location does not answer.
        """
        if self.store.dated or clock.monotonic() - self._days_at > _DAYS_FRESH_SECONDS:
            self._reset_days()
        if not self.store.dated and self._round == 0:
            # Already damaged at the start: they may be repaired like any other. Half of the room is for new ones.
            broken = self._index.find_still_open(self.store.address, _MAX_POLLED_REMOTE // 2, damaged=True)
            self._new_folders = {record.path: clock.monotonic() for record in broken.values()} | self._new_folders
        self._days.forget("")
        self._found = array("q")
        self._round += 1
        parents = [*history_layouts.iterate_recent_parents(self._days)]
        for parent in parents:
            if self._has_changed(parent):
                found = history_layouts.list_places(self._days, parent)
                self._days.forget(parent)
                self._read_changed(found if self.store.dated else self._select_new(parent, found))
                if not self.store.dated:  # only now: reading may have failed
                    self._names[parent] = array("q", sorted(_hash_job(place.job) for place in found))
                if len(parents) == 1 and self._index.count_jobs(self.store.address) > len(found):
                    self._forget(array("q", sorted(_hash_job(place.job) for place in found)))
        self._names = {parent: names for parent, names in self._names.items() if parent in parents}
        self._new_folders = {
            path: since for path, since in self._new_folders.items() if clock.monotonic() - since < _NEW_FOLDER_SECONDS
        }
        most = _MAX_POLLED_REMOTE if self.store.dated and not self.store.local else _MAX_POLLED
        known = {
            **self._index.find_known(path.rpartition("/")[2] for path in self._new_folders),
            **self._index.find_still_open(self.store.address, most),
        }
        before = {record.path: record for record in known.values() if record.place == self.store.address}
        open_ = (path for path, each in before.items() if not each.ended)
        paths = self._select_due([*dict.fromkeys([*self._new_folders, *open_])])
        self._read(_ReadTask(path=path, item=None, before=before.get(path)) for path in paths)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _has_changed(self, parent: str) -> bool:
        """Return True if a folder may have changed since the last call."""
        item = self.store.find(parent) if self.store.dated else None
        if item is None:
            return True
        fresh = clock.wall() - item.changed < 2.0  # timestamps of file systems are coarse
        changed = fresh or self._seen.get(parent) != item.changed
        self._seen[parent] = item.changed
        return changed

    def _reset_days(self) -> None:
        self._requests += self._days.request_count
        self._days, self._days_at = Listings(self.store), clock.monotonic()

    def _select_new(self, parent: str, found: Sequence[RecordLocation]) -> Sequence[RecordLocation]:
        """Return the jobs of a folder that were not there at the last scan, and are not indexed."""
        before = self._names.get(parent, array("q"))
        unseen = [place for place in found if not _has(before, _hash_job(place.job))]
        new: list[RecordLocation] = []
        for chunk in _split_batches(unseen, _BATCH_JOBS):
            known = self._index.find_known(place.job for place in chunk)
            new += [location for location in chunk if not self._is_indexed_here(known.get(location.job), location)]
        self._last_rounds.update((place.path, self._round) for place in new)
        return new

    def _select_due(self, paths: Sequence[str]) -> Sequence[str]:
        """Return the paths to poll in this scan: the least recently polled ones, each at most once per scan.

        Half of the places are for new folders: with very many running jobs their time would be over before their turn.
        """
        if self.store.dated:
            return paths
        self._last_rounds = {path: self._last_rounds.get(path, 0) for path in paths}
        waiting = sorted(
            (path for path in paths if self._last_rounds[path] < self._round), key=self._last_rounds.__getitem__
        )
        young = islice((path for path in waiting if path in self._new_folders), _POLLED_PER_SCAN // 2)
        chosen = [*dict.fromkeys([*young, *waiting])][:_POLLED_PER_SCAN]
        self._last_rounds.update((path, self._round) for path in chosen)
        return chosen

    def _read_changed(self, places: Sequence[RecordLocation]) -> bool:
        """Read what may have changed; return False if the scan was aborted."""
        for chunk in _split_batches(places, _BATCH_JOBS):
            self._read(self._find_changed(chunk))
            self.looked_at += len(chunk)
            if self._ended():
                return False
        return True

    def _find_changed(self, places: Sequence[RecordLocation]) -> Iterator[_ReadTask]:
        """Yield the folders that may have changed."""
        known = self._index.find_known(place.job for place in places)
        for place in places:
            before = known.get(place.job)
            if before and before.ended and before.place != self.store.address:
                continue
            if not self._is_indexed_here(before, place):
                before = None
            elif before and before.ended and before.stamp == build_stamp(self.store, place.item):
                continue
            yield _ReadTask(path=place.path, item=place.item, before=before)

    def _is_indexed_here(self, known: IndexedRecord | None, place: RecordLocation) -> bool:
        return known is not None and known.place == self.store.address and known.path == place.path

    def _read(self, looks: Iterable[_ReadTask]) -> None:
        self._put(read_each(self._read_folder, looks, _THREADS, MAX_PAUSE_SECONDS))

    def _read_folder(self, look: _ReadTask) -> IndexEntry | _NoEntry | None:
        """Read one folder, if it may have changed. Runs in a reader thread."""
        files = self.store.hold(look.path) if self.store.local else Listings(self.store)
        item = (look.item or self._find_item(files, look.path)) if files else None
        if files is None or item is None:
            return _NoEntry.MISSING
        place = RecordLocation(path=look.path, item=item)
        before = look.before
        if before and not before.ended:
            if before.stamp and before.stamp == open_stamp(files, place):
                return _NoEntry.NOTHING
            if self._polls_ams and not files.find(join_path(place.path, "summary.json")):
                return _NoEntry.NOTHING
        return read(files, place, own=self._polls_ams)

    def _find_item(self, files: FileStore, path: str) -> Item | None:
        if not self.store.dated:
            return _read_folder_item(path) if files.list(path) else None
        item = self.store.find(path)
        return item if item and item.folder else None

    def _put(self, found: Iterator[tuple[_ReadTask, IndexEntry | _NoEntry | Exception | None]]) -> None:
        batch: list[IndexEntry] = []
        since = clock.monotonic()
        for look, entry in found:
            self._requests += self.store.local is None
            if isinstance(entry, Exception):
                entry = self._handle_unreadable(look.place, entry)
            if entry is _NoEntry.MISSING:
                self._handle_removed(look)
            if isinstance(entry, _NoEntry):
                continue
            if entry is None or (entry.head.damaged and not self.store.dated):
                if self._may_become_complete(look):
                    self._new_folders.setdefault(look.path, clock.monotonic())
            else:
                self._new_folders.pop(look.path, None)
            if entry is None:
                continue
            batch.append(entry)
            self._found.append(_hash_job(entry.head.job))
            self._settled += self.store.local is None and entry.head.ended is not None
            if clock.monotonic() - since > _BATCH_SECONDS:
                self._index.put(self._drop_better_known(batch))
                batch, since = [], clock.monotonic()
        self._index.put(self._drop_better_known(batch))

    def _may_become_complete(self, look: _ReadTask) -> bool:
        """Return True if a folder may become a complete job soon; without times, if it is seen for the first time."""
        if look.item is None or len(self._new_folders) >= (_MAX_POLLED if self.store.dated else _MAX_POLLED_REMOTE):
            return False
        return clock.wall() - look.item.changed < _NEW_FOLDER_SECONDS if self.store.dated else look.before is None

    def _handle_removed(self, look: _ReadTask) -> None:
        self._new_folders.pop(look.path, None)
        if look.before:
            self._index.remove([look.place.job])
            self._days_at = float("-inf")  # it may have moved to a day that is not cached yet

    def _handle_unreadable(self, place: RecordLocation, error: Exception) -> IndexEntry | None:
        """Return a damaged entry for a folder that could not be read; None if it was readable before.

        Raises:
            TonyError: the whole location does not answer.
        """
        if not isinstance(error, TonyError):
            _log.error("%s/%s: %r", self.store.address, place.path, error)
        self.store.list()
        known = self._index.find_entry(place.job)
        if known and not known.head.damaged:
            return None  # it was complete before: the next scan may succeed
        why = join_lines(error)
        return IndexEntry(head=build_damaged_head(place, why), place=self.store.address, path=place.path)

    def _drop_better_known(self, batch: Sequence[IndexEntry]) -> list[IndexEntry]:
        """Drop entries of jobs that another location has, unless only this one has their end."""
        known = self._index.find_known(entry.head.job for entry in batch)
        kept = []
        for entry in batch:
            before = known.get(entry.head.job)
            elsewhere = before is not None and before.place != self.store.address
            if not elsewhere or (entry.head.ended is not None and not (before and before.ended)):
                kept.append(entry)
        return kept

    def _forget(self, seen: array[int]) -> None:
        """Remove jobs from the index whose folder is gone; without holding a million names in memory."""
        missing = (job for job in self._index.iterate_ids(self.store.address) if not _has(seen, _hash_job(job)))
        while chunk := [*islice(missing, _BATCH_JOBS)]:
            self._index.remove(chunk)


def read_each(
    look: Callable[[T], R], items: Iterable[T], threads: int, longest: float, most_lost: int = 8
) -> Iterator[tuple[T, R | Exception]]:
    """Call `look` with each item in some threads; yield it with the result or error, in order of completion.

    A call that takes too long is abandoned with its thread, so that one that hangs does not block the others.

    Args:
        threads: calls at the same time, without abandoned ones.
        longest: seconds for one call.
        most_lost: calls that may be abandoned.

    Raises:
        StorageError: more calls hang: the whole location does.
    """
    todo: queue.SimpleQueue[tuple[int, T] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | Exception]] = queue.SimpleQueue()
    running: dict[int, tuple[T, float]] = {}  # in the order of their start
    numbered = enumerate(items)
    started = lost = 0

    def work() -> None:
        while (task := todo.get()) is not None:
            number, item = task
            try:
                result: R | Exception = look(item)
            except Exception as error:  # yielded to the consumer
                result = error
            done.put((number, result))

    try:
        while True:
            for number, item in islice(numbered, threads - len(running)):
                running[number] = item, clock.monotonic()
                todo.put((number, item))
                if started - lost < len(running):
                    threading.Thread(target=work, daemon=True).start()
                    started += 1
            if not running:
                return
            oldest, (_, started_at) = next(iter(running.items()))
            try:
                finished, result = done.get(timeout=max(0.0, started_at + longest - clock.monotonic()))
            except queue.Empty:
                lost += 1
                if lost > most_lost:
                    raise StorageError(f"{lost} jobs could not be read within {longest:.0f} s each") from None
                finished, result = oldest, StorageError(f"it could not be read within {longest:.0f} s")
            if finished in running:  # else it was abandoned before
                item, _ = running.pop(finished)
                yield item, result
    finally:
        for _ in range(started):
            todo.put(None)


def _read_folder_item(path: str) -> Item:
    """Return the metadata of a folder of which only the name is known."""
    return Item(name=path.rpartition("/")[2], folder=True)


def _hash_job(job: str) -> int:
    return hash(job)


def _has(numbers: array[int], number: int) -> bool:
    place = bisect_left(numbers, number)
    return place < len(numbers) and numbers[place] == number


def _split_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


#: Names in one answer of S3; larger folders need, and cost, several requests.
_NAMES_PER_REQUEST = 1_000


class Listings(FileStore):
    """A store for reading that caches the listings of its folders until `forget`; `find` uses them, too.

    Attributes:
        request_count: number of listing requests so far, as S3 counts them.
    """

    def __init__(self, store: FileStore) -> None:
        self.address, self.local, self.dated = store.address, store.local, store.dated
        self.request_count = 0
        self._store = store
        self._listings: dict[str, Sequence[Item]] = {}

    def forget(self, path: str) -> None:
        """Drop the cached listing of a folder."""
        self._listings.pop(path, None)

    def list(self, path: str = "") -> Sequence[Item]:
        found = self._listings.get(path)
        if found is None:
            found = self._listings[path] = self._store.list(path)
            self.request_count += 1 + len(found) // _NAMES_PER_REQUEST
        return found

    def find(self, path: str) -> Item | None:
        folder, _, name = path.rpartition("/")
        return next((item for item in self.list(folder) if item.name == name), None)

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        return self._store.read_pieces(path, offset)

    def write(self, path: str, content: bytes | Path) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        raise NotImplementedError
