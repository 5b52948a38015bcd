"""What of a history goes, by age, number and size for each user: first said, and only then done.

A job that has not ended never goes, nor one that is pinned; a damaged record is left to people.
"""

from __future__ import annotations

import errno
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tony import clock
from tony.dataclass import dataclass, field
from tony.errors import StorageError, TonyError
from tony.model.job_summary import JobHead
from tony.portal import history_layouts
from tony.portal.history_layouts import RecordLocation
from tony.portal.record_reader import damaged, read
from tony.storage.local_store import LocalStore
from tony.storage.store import FileStore, Item, joined
from tony.units import format_duration, format_size

#: Seconds after its end in which a job is still being put away.
RECENT = 600.0
#: Files and folders of one record that are looked at.
_MOST_ITEMS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """What may stay; None: as much as there is.

    Attributes:
        age: seconds since a job's end.
        jobs, size: of each user: how many, and bytes, the newest.
        user: only this one's jobs go; empty: everybody's.
    """

    age: float | None = None
    jobs: int | None = None
    size: int | None = None
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCandidate:
    """A record.

    Attributes:
        place: below its location.
        size: bytes of all of it.
    """

    head: JobHead
    place: RecordLocation
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRecord:
    """A record that goes, and why: one sentence."""

    record: RetentionCandidate
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What would be done.

    Attributes:
        going: the oldest first.
        stays: how many stay, and bytes of them.
        pinned, unended, damaged: how many of these stay that a rule would have taken, or that no rule is for.
        problems: record -> why it could not be looked at.
    """

    going: tuple[RemovedRecord, ...]
    stays: int
    stays_size: int
    pinned: int
    unended: int
    damaged: int
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that would be free."""
        return sum(each.record.size for each in self.going)


def plan(store: FileStore, rules: RetentionRules, *, own: bool = False) -> RetentionPlan:
    """Looks at every record of a location; changes nothing. Blocks.

    Args:
        own: it is the user's own state directory; of other users' records less is read.

    Raises:
        TonyError: the location does not answer.
    """
    records: list[RetentionCandidate] = []
    problems: dict[str, str] = {}
    for place in _places(store):
        try:
            held = store.hold(place.path)
            entry = read(held, place, own=own) if held else None
            if held and entry:
                records.append(RetentionCandidate(head=entry.head, place=place, size=size_of(held, place.path)))
        except TonyError as error:
            problems[place.job] = " ".join(str(error).split())
            store.list()  # it is the record, and not the location
            records.append(RetentionCandidate(head=damaged(place, problems[place.job]), place=place, size=0))
    return decide(records, rules, clock.wall(), problems)


def decide(
    records: Iterable[RetentionCandidate], rules: RetentionRules, now: float, problems: Mapping[str, str] | None = None
) -> RetentionPlan:
    """What goes of some records. Pure."""
    by_user: dict[tuple[str, str], list[RetentionCandidate]] = {}
    everything = list(records)
    for each in everything:
        if _may_go(each.head, now) and rules.user in ("", each.head.user):
            # Whose a job is, its record says, and anybody may say that: so nobody's records push out another's.
            by_user.setdefault((each.head.user, each.place.item.owner), []).append(each)
    going: list[RemovedRecord] = []
    for mine in by_user.values():
        mine.sort(key=lambda each: (each.head.ended or 0.0, each.head.job), reverse=True)
        going += _of_user(mine, rules, now)
    going.sort(key=lambda each: (each.record.head.ended or 0.0, each.record.head.job))
    jobs = {each.record.head.job for each in going}
    staying = [each for each in everything if each.head.job not in jobs]
    return RetentionPlan(
        going=tuple(going),
        stays=len(staying),
        stays_size=sum(each.size for each in staying),
        pinned=sum(each.head.pinned for each in staying),
        unended=sum(each.head.ended is None and not each.head.damaged for each in staying),
        damaged=sum(bool(each.head.damaged) for each in staying),
        problems=problems or {},
    )


def carry_out(store: FileStore, going: RemovedRecord, to: FileStore | None = None, *, own: bool = False) -> bool:
    """Removes a record, or moves it to another location, where it lies by date; False if it shall stay after all, or
    lies there already.

    Whoever is ended in the midst of it has left a record that is whole in one of the two places.

    Args:
        own: as of `plan`.

    Raises:
        TonyError: a file system refuses.
    """
    record = going.record
    held = store.hold(record.place.path)  # what goes is the directory that is read here, and no other one
    item = held.find(record.place.path) if held else None
    entry = read(held, RecordLocation(path=record.place.path, item=item), own=own) if held and item else None
    if held is None or entry is None or not _may_go(entry.head, clock.wall()):  # pinned meanwhile, or gone
        return False
    if to is not None:
        assert entry.head.ended is not None
        target = history_layouts.dated(entry.head.job, entry.head.ended)
        if target == record.place.path and _is_same(store, to, target):
            return False
        move(held, record.place.path, to, target)
    held.remove(joined(record.place.path, "job.json"))  # first: half a record is none
    held.remove(record.place.path)
    return True


def _is_same(store: FileStore, other: FileStore, path: str) -> bool:
    """Whether two are one folder, whatever they are called: what is written into one is in the other."""
    probe = joined(path, f".moving-{secrets.token_hex(8)}")
    other.write(probe, b"")
    try:
        return store.find(probe) is not None
    finally:
        other.remove(probe)


#: Of a job's folder, what is no part of its record, or nobody's business.
_LEFT = frozenset(("work", "secret", "staged", "remains", "am.lock", "am.json", "am.sock", "kill.json", "access.json"))


def move(store: FileStore, path: str, to: FileStore, target: str) -> None:
    """Copies a record; its summary last, so that what is there is whole. Links and pipes in it are no part of it: what
    a link leads to may be what only we may read.

    Raises:
        TonyError: a file system refuses.
    """
    files = [(name, item) for name, item in _files(store, path) if name.partition("/")[0] not in _LEFT]
    files.sort(key=lambda each: each[0] == "summary.json")
    for name, item in files:
        there = to.find(joined(target, name))
        if there is None or there.size != item.size:
            _copy(store, joined(path, name), to, joined(target, name))


def size_of(store: FileStore, path: str) -> int:
    """Bytes of all files of a record."""
    return sum(item.size for _, item in _files(store, path))


def _places(store: FileStore) -> Iterator[RecordLocation]:
    for parent in history_layouts.parents(store):
        yield from history_layouts.places(store, parent)


def _may_go(head: JobHead, now: float) -> bool:
    ended = head.ended is not None and head.state.ended and head.ended < now - RECENT
    return ended and not head.pinned and not head.damaged


def _of_user(newest_first: Sequence[RetentionCandidate], rules: RetentionRules, now: float) -> Iterator[RemovedRecord]:
    size = 0
    for jobs, each in enumerate(newest_first, start=1):
        size += each.size
        why = ""
        if rules.age is not None and now - (each.head.ended or 0.0) > rules.age:
            why = f"it ended {format_duration(now - (each.head.ended or 0.0))} ago"
        if not why and rules.jobs is not None and jobs > rules.jobs:
            why = f"{each.head.user} has {rules.jobs} newer ones"
        if not why and rules.size is not None and size > rules.size:
            why = f"{each.head.user}'s newer ones and it have {format_size(size)}"
        if why:
            yield RemovedRecord(record=each, why=why)


def _files(store: FileStore, path: str) -> Iterator[tuple[str, Item]]:
    """Every file below a folder, by its path there."""
    todo, seen = [""], 0
    while todo:
        below = todo.pop()
        for item in store.list(joined(path, below)):
            seen += 1
            if seen > _MOST_ITEMS:
                return
            name = joined(below, item.name)
            if item.folder:
                todo.append(name)
            else:
                yield name, item


def _copy(store: FileStore, path: str, to: FileStore, target: str) -> None:
    if isinstance(store, LocalStore):
        try:
            with open(store.open(path), "rb") as file:
                to.write(target, Path(f"/proc/self/fd/{file.fileno()}"))
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EINVAL):
                raise StorageError(f"cannot read {store.address}/{path}: {error.strerror}") from error
        return
    with tempfile.NamedTemporaryFile(prefix="tony-") as draft:
        for piece in store.pieces(path):
            draft.write(piece)
        draft.flush()
        to.write(target, Path(draft.name))
