"""Keeps the index true to one location: all of it now and then, and what is new at once."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import TypeVar

from tony import clock
from tony.dataclass import dataclass
from tony.errors import TonyError
from tony.portal import history_layouts
from tony.portal.bounded_readers import Readers
from tony.portal.folder_cache import Listings
from tony.portal.history_layouts import RecordLocation
from tony.portal.index import IndexedRecord, JobIndex
from tony.portal.index_entry import IndexEntry
from tony.portal.record_reader import damaged, open_stamp, read, stamp_of
from tony.storage.store import FileStore, Item, joined

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Jobs that are looked up, and put into the index, at once; and seconds after which fewer are put.
_BATCH, _SOON = 500, 1.0
#: Records that are read at the same time, and seconds for one.
_THREADS, LONGEST = 4, 20.0
#: Jobs that have not ended that are looked at again and again, the newest: here, and in HDFS, where each is a call.
_MOST_OPEN, _MOST_OPEN_FAR = 2_000, 200
#: How many each time where a call costs money: they take turns, so that it may be as many as here.
_IN_TURN = 10
#: Seconds for which we know, where folders have no times, which days there are. Jobs do not run in these.
_DAYS_KNOWN = 60.0
#: Seconds in which a folder without a record may still get one: a submission fills it piece by piece.
_YOUNG = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A record that is to be looked at.

    Attributes:
        item: what its file system says of its folder; None if that is to be asked.
        before: what the index says of it, if anything.
    """

    path: str
    item: Item | None
    before: IndexedRecord | None

    @property
    def place(self) -> RecordLocation:
        """Where it is, as far as we know."""
        return RecordLocation(path=self.path, item=self.item or _folder(self.path))


class _News(Enum):
    """What can come of a look, besides a record or that there is none in that folder."""

    NOTHING = auto()
    GONE = auto()


class Scanner:
    """One location.

    Where folders have no times each request may cost money. There a quick look asks for the names in those folders in
    which something new can be, reads what it has never seen, and looks after some of those that have not ended: what
    it asks for does not grow with what lies there, but for S3's thousand names to an answer.

    Args:
        store: of it.
        index: that we write.
        ended: asked now and then; True has the scan end early.
        asked: somebody else looks after the jobs that have not ended, and knows better than their files how they stand.
    """

    def __init__(
        self,
        store: FileStore,
        index: JobIndex,
        ended: Callable[[], bool] = lambda: False,
        *,
        asked: bool = False,
    ) -> None:
        self.store = store
        self.looked_at = self.there = 0
        self._index = index
        self._ended = ended
        self._asked = asked
        self._seen: dict[str, float] = {}
        self._young: dict[str, float] = {}
        self._days = Listings(store)
        self._days_at = float("-inf")
        self._names: dict[str, array[int]] = {}
        self._turns: dict[str, int] = {}
        self._round = 0
        self._requests = self._settled = 0
        self._found = array("q")

    @property
    def requests(self) -> int:
        """For names, so far, as S3 counts them."""
        return self._requests + self._days.asked

    @property
    def lasting(self) -> int:
        """Those of them that another look makes again: what is known of a job that has ended is not asked for twice."""
        return self.requests - self._settled

    def full(self, between: Callable[[], None] = lambda: None) -> None:
        """Looks at every record that is not known as it is, and forgets those that are gone.

        Args:
            between: called after each folder; may look for what is new.

        Raises:
            TonyError: the location does not answer. What was found till then is in the index.
        """
        self._seen.clear()
        self.looked_at = self.there = 0
        seen = array("q")
        listings = Listings(self.store)
        try:
            for parent in history_layouts.parents(listings):
                self._note(parent)
                found = history_layouts.places(listings, parent)
                listings.forget(parent)
                self.there += len(found)
                seen.extend(_short(place.job) for place in found)
                if not self._take(found):
                    return
                self._found = array("q")
                between()
                seen.extend(self._found)
        finally:
            self._requests += listings.asked
        self._forget(array("q", sorted(seen)))
        self._index.note(self.store.address, seen=clock.wall())

    def quick(self) -> None:
        """Looks for new records, and at those of jobs that have not ended.

        Raises:
            TonyError: the location does not answer.
        """
        if self.store.dated or clock.monotonic() - self._days_at > _DAYS_KNOWN:
            self._learn_days()
        if not self.store.dated and self._round == 0:
            # Damaged before we came: they may become whole as any other. Half of the room is left for new ones.
            broken = self._index.still_open(self.store.address, _MOST_OPEN_FAR // 2, damaged=True)
            self._young = {each.path: clock.monotonic() for each in broken.values()} | self._young
        self._days.forget("")
        self._found = array("q")
        self._round += 1
        parents = [*history_layouts.recent_parents(self._days)]
        for parent in parents:
            if self._note(parent):
                found = history_layouts.places(self._days, parent)
                self._days.forget(parent)
                self._take(found if self.store.dated else self._new(parent, found))
                if not self.store.dated:  # nor before: it may not have answered
                    self._names[parent] = array("q", sorted(_short(place.job) for place in found))
                if len(parents) == 1 and self._index.count(self.store.address) > len(found):
                    self._forget(array("q", sorted(_short(place.job) for place in found)))
        self._names = {parent: names for parent, names in self._names.items() if parent in parents}
        self._young = {path: since for path, since in self._young.items() if clock.monotonic() - since < _YOUNG}
        most = _MOST_OPEN_FAR if self.store.dated and not self.store.local else _MOST_OPEN
        known = {
            **self._index.known(path.rpartition("/")[2] for path in self._young),
            **self._index.still_open(self.store.address, most),
        }
        before = {each.path: each for each in known.values() if each.place == self.store.address}
        open_ = (path for path, each in before.items() if not each.ended)
        paths = self._in_turn([*dict.fromkeys([*self._young, *open_])])
        self._read(_Look(path=path, item=None, before=before.get(path)) for path in paths)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _note(self, parent: str) -> bool:
        """Whether a folder may have changed since we looked at it last; we do so now."""
        item = self.store.find(parent) if self.store.dated else None
        if item is None:
            return True
        fresh = clock.wall() - item.changed < 2.0  # clocks of file systems tick slowly
        changed = fresh or self._seen.get(parent) != item.changed
        self._seen[parent] = item.changed
        return changed

    def _learn_days(self) -> None:
        self._requests += self._days.asked
        self._days, self._days_at = Listings(self.store), clock.monotonic()

    def _new(self, parent: str, found: Sequence[RecordLocation]) -> Sequence[RecordLocation]:
        """Those in a folder that were not there at the last look, and of which the index knows nothing."""
        before = self._names.get(parent, array("q"))
        unseen = [place for place in found if not _has(before, _short(place.job))]
        new: list[RecordLocation] = []
        for some in _parts(unseen, _BATCH):
            known = self._index.known(place.job for place in some)
            new += [each for each in some if not self._is_ours(known.get(each.job), each)]
        self._turns.update((place.path, self._round) for place in new)
        return new

    def _in_turn(self, paths: Sequence[str]) -> Sequence[str]:
        """As many of them as one look may cost: first those that were looked at the longest ago, never twice in one.

        Half of the places are for young ones: among very many that run their time would be over before their turn.
        """
        if self.store.dated:
            return paths
        self._turns = {path: self._turns.get(path, 0) for path in paths}
        waiting = sorted((path for path in paths if self._turns[path] < self._round), key=self._turns.__getitem__)
        young = islice((path for path in waiting if path in self._young), _IN_TURN // 2)
        chosen = [*dict.fromkeys([*young, *waiting])][:_IN_TURN]
        self._turns.update((path, self._round) for path in chosen)
        return chosen

    def _take(self, places: Sequence[RecordLocation]) -> bool:
        """Reads what may have changed; False if we shall end."""
        for some in _parts(places, _BATCH):
            self._read(self._stale(some))
            self.looked_at += len(some)
            if self._ended():
                return False
        return True

    def _stale(self, places: Sequence[RecordLocation]) -> Iterator[_Look]:
        """Those of which the index may not know all."""
        known = self._index.known(place.job for place in places)
        others = self._index.places().keys() - {self.store.address}
        for place in places:
            before = known.get(place.job)
            if before and before.ended and before.place in others:
                continue
            if not self._is_ours(before, place):
                before = None
            elif before and before.ended and before.stamp == stamp_of(self.store, place.item):
                continue
            yield _Look(path=place.path, item=place.item, before=before)

    def _is_ours(self, known: IndexedRecord | None, place: RecordLocation) -> bool:
        return known is not None and known.place == self.store.address and known.path == place.path

    def _read(self, looks: Iterable[_Look]) -> None:
        readers: Readers[_Look, IndexEntry | _News | None] = Readers(self._look, _THREADS, LONGEST)
        self._put(readers.each(looks))

    def _look(self, look: _Look) -> IndexEntry | _News | None:
        """Reads one record, if it may have changed. In a thread of its own."""
        files = self.store.hold(look.path) if self.store.local else Listings(self.store)
        item = (look.item or self._item(files, look.path)) if files else None
        if files is None or item is None:
            return _News.GONE
        place = RecordLocation(path=look.path, item=item)
        before = look.before
        if before and not before.ended:
            if before.stamp and before.stamp == open_stamp(files, place):
                return _News.NOTHING
            if self._asked and not files.find(joined(place.path, "summary.json")):
                return _News.NOTHING
        return read(files, place, own=self._asked)

    def _item(self, files: FileStore, path: str) -> Item | None:
        if not self.store.dated:
            return _folder(path) if files.list(path) else None
        item = self.store.find(path)
        return item if item and item.folder else None

    def _put(self, found: Iterator[tuple[_Look, IndexEntry | _News | Exception | None]]) -> None:
        batch: list[IndexEntry] = []
        since = clock.monotonic()
        for look, entry in found:
            self._requests += self.store.local is None
            if isinstance(entry, Exception):
                entry = self._unread(look.place, entry)
            if entry is _News.GONE:
                self._gone(look)
            if isinstance(entry, _News):
                continue
            if entry is None or (entry.head.damaged and not self.store.dated):
                if self._is_young(look):
                    self._young.setdefault(look.path, clock.monotonic())
            else:
                self._young.pop(look.path, None)
            if entry is None:
                continue
            batch.append(entry)
            self._found.append(_short(entry.head.job))
            self._settled += self.store.local is None and entry.head.ended is not None
            if clock.monotonic() - since > _SOON:
                self._index.put(self._ours(batch))
                batch, since = [], clock.monotonic()
        self._index.put(self._ours(batch))

    def _is_young(self, look: _Look) -> bool:
        """Whether it may become a whole record soon; where folders have no times, what we see for the first time."""
        if look.item is None or len(self._young) >= (_MOST_OPEN if self.store.dated else _MOST_OPEN_FAR):
            return False
        return clock.wall() - look.item.changed < _YOUNG if self.store.dated else look.before is None

    def _gone(self, look: _Look) -> None:
        self._young.pop(look.path, None)
        if look.before:
            self._index.remove([look.place.job])
            self._days_at = float("-inf")  # moved to another day, of which we may not know yet

    def _unread(self, place: RecordLocation, error: Exception) -> IndexEntry | None:
        """What is said of a record that could not be read: nothing, if it is the whole location that does not answer.

        Raises:
            TonyError: it is.
        """
        if not isinstance(error, TonyError):
            _log.error("%s/%s: %r", self.store.address, place.path, error)
        self.store.list()
        known = self._index.entry(place.job)
        if known and not known.head.damaged:
            return None  # what was read once was whole: the next look may do better
        why = " ".join(str(error).split()) or type(error).__name__
        return IndexEntry(head=damaged(place, why), place=self.store.address, path=place.path)

    def _ours(self, batch: Sequence[IndexEntry]) -> list[IndexEntry]:
        """Without those of which another location knows more."""
        known = self._index.known(entry.head.job for entry in batch)
        others = self._index.places().keys() - {self.store.address}
        kept = []
        for entry in batch:
            before = known.get(entry.head.job)
            elsewhere = before is not None and before.place in others
            if not elsewhere or (entry.head.ended is not None and not (before and before.ended)):
                kept.append(entry)
        return kept

    def _forget(self, seen: array[int]) -> None:
        """Takes jobs out whose records are gone; without holding a million names."""
        gone = (job for job in self._index.ids(self.store.address) if not _has(seen, _short(job)))
        while some := [*islice(gone, _BATCH)]:
            self._index.remove(some)


def _folder(path: str) -> Item:
    """One of which nothing is known but its name."""
    return Item(name=path.rpartition("/")[2], folder=True)


def _short(job: str) -> int:
    return hash(job)


def _has(numbers: array[int], number: int) -> bool:
    place = bisect_left(numbers, number)
    return place < len(numbers) and numbers[place] == number


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
