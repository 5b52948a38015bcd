"""Keeps the index true to one location: all of it now and then, and what is new at once."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from tony import clock
from tony.errors import TonyError
from tony.portal import layouts
from tony.portal.entry import Entry
from tony.portal.index import Index
from tony.portal.layouts import Place
from tony.portal.readers import Readers
from tony.portal.record import damaged, open_stamp, read, stamp_of
from tony.storage.store import Store, joined

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Jobs that are looked up, and put into the index, at once; and seconds after which fewer are put.
_BATCH, _SOON = 500, 1.0
#: Records that are read at the same time, and seconds for one.
_THREADS, LONGEST = 4, 20.0
#: Jobs that have not ended that are looked at again each time, the newest; elsewhere each look is a call.
_MOST_OPEN, _MOST_OPEN_FAR = 2_000, 200
#: Seconds in which a folder without a record may still get one: a submission fills it piece by piece.
_YOUNG = 600.0


class Scanner:
    """One location.

    Args:
        store: of it.
        index: that we write.
        ended: asked now and then; True has the scan end early.
        asked: somebody else looks after the jobs that have not ended, and knows better than their files how they stand.
    """

    def __init__(
        self,
        store: Store,
        index: Index,
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

    def full(self) -> None:
        """Looks at every record that is not known as it is, and forgets those that are gone.

        Raises:
            TonyError: the location does not answer. What was found till then is in the index.
        """
        self._seen.clear()
        self.looked_at = self.there = 0
        seen = array("q")
        for parent in layouts.parents(self.store):
            self._note(parent)
            found = layouts.places(self.store, parent)
            self.there += len(found)
            seen.extend(_short(place.job) for place in found)
            if not self._take(found):
                return
        self._forget(array("q", sorted(seen)))
        self._index.note(self.store.address, seen=clock.wall())

    def quick(self) -> None:
        """Looks for new records, and at those of jobs that have not ended.

        Raises:
            TonyError: the location does not answer.
        """
        parents = [*layouts.recent_parents(self.store)]
        for parent in parents:
            if self._note(parent):
                found = layouts.places(self.store, parent)
                self._take(found)
                if len(parents) == 1 and self._index.count(self.store.address) > len(found):
                    self._forget(array("q", sorted(_short(place.job) for place in found)))
        self._young = {path: since for path, since in self._young.items() if clock.monotonic() - since < _YOUNG}
        self._take([place for path in [*self._young] if (place := self._place(path))])
        known = self._index.still_open(self.store.address, _MOST_OPEN if self.store.local else _MOST_OPEN_FAR)
        places = {job: self._place(each.path) for job, each in known.items()}
        self._take([place for place in places.values() if place])
        self._index.remove(job for job, place in places.items() if place is None)

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

    def _place(self, path: str) -> Place | None:
        item = self.store.find(path)
        return Place(path=path, item=item) if item and item.folder else None

    def _take(self, places: Sequence[Place]) -> bool:
        """Reads what may have changed; False if we shall end."""
        readers: Readers[Place, Entry | None] = Readers(lambda place: read(self.store, place), _THREADS, LONGEST)
        for some in _parts(places, _BATCH):
            self._put(readers.each(self._stale(some)))
            self.looked_at += len(some)
            if self._ended():
                return False
        return True

    def _stale(self, places: Sequence[Place]) -> Iterator[Place]:
        """Those of which the index may not know all."""
        known = self._index.known(place.job for place in places)
        others = self._index.places().keys() - {self.store.address}
        for place in places:
            before = known.get(place.job)
            if before and before.ended and before.place in others:
                continue
            if before and before.path == place.path and before.place == self.store.address:
                if before.ended and before.stamp == stamp_of(self.store, place.item):
                    continue
                if not before.ended and before.stamp and before.stamp == open_stamp(self.store, place):
                    continue
                if self._asked and not before.ended and not self.store.find(joined(place.path, "summary.json")):
                    continue
            yield place

    def _put(self, found: Iterator[tuple[Place, Entry | Exception | None]]) -> None:
        batch: list[Entry] = []
        since = clock.monotonic()
        for place, entry in found:
            if isinstance(entry, Exception):
                entry = self._unread(place, entry)
            if entry is None:
                if clock.wall() - place.item.changed < _YOUNG and len(self._young) < _MOST_OPEN:
                    self._young.setdefault(place.path, clock.monotonic())
                continue
            self._young.pop(place.path, None)
            batch.append(entry)
            if clock.monotonic() - since > _SOON:
                self._index.put(self._ours(batch))
                batch, since = [], clock.monotonic()
        self._index.put(self._ours(batch))

    def _unread(self, place: Place, error: Exception) -> Entry | None:
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
        return Entry(head=damaged(place, why), place=self.store.address, path=place.path)

    def _ours(self, batch: Sequence[Entry]) -> list[Entry]:
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


def _short(job: str) -> int:
    return hash(job)


def _has(numbers: array[int], number: int) -> bool:
    place = bisect_left(numbers, number)
    return place < len(numbers) and numbers[place] == number


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
