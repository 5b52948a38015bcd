"""Retention: which jobs to purge from a history, by age, number and size per user. Planned first, then carried out.

Jobs that have not ended and pinned jobs are never purged; damaged ones are left to the user.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tony import clock
from tony.errors import StorageError, TonyError, join_lines
from tony.model.job_summary import JobHead
from tony.portal.histories import history_layouts
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.record_reader import build_damaged_head, read
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore, Item, join_path
from tony.units import format_duration, format_size

#: Seconds after its end during which a job's files may still be written.
RECENT_SECONDS = 600.0
#: Maximum files and folders counted per job.
_MAX_ITEMS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """Limits of retention; None for no limit.

    Attributes:
        age: seconds since a job's end.
        jobs, size: per user, of the newest jobs: their number, and bytes.
        user: purge only jobs of this user; empty for all users.
    """

    age: float | None = None
    jobs: int | None = None
    size: int | None = None
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCandidate:
    """A job directory.

    Attributes:
        place: its path in the location.
        size: bytes of all files.
    """

    head: JobHead
    place: RecordLocation
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRecord:
    """A job to purge, and why: one sentence."""

    record: RetentionCandidate
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The result of applying the rules.

    Attributes:
        going: jobs to purge, oldest first.
        stays: number of jobs to keep.
        stays_size: bytes of these.
        pinned, unended, damaged: how many of the kept jobs are exempt for this reason.
        problems: job -> why it could not be read.
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
        """Bytes that would be freed."""
        return sum(removal.record.size for removal in self.going)


def plan(store: FileStore, rules: RetentionRules, *, own: bool = False) -> RetentionPlan:
    """Plan the purge of a location; changes nothing. Blocks.

    Args:
        own: it is the user's own state directory; lower limits apply to jobs of other users.

    Raises:
        TonyError: the location does not answer.
    """
    records: list[RetentionCandidate] = []
    problems: dict[str, str] = {}
    for place in _iterate_places(store):
        try:
            held = store.hold(place.path)
            entry = read(held, place, own=own) if held else None
            if held and entry:
                records.append(RetentionCandidate(head=entry.head, place=place, size=compute_size(held, place.path)))
        except TonyError as error:
            problems[place.job] = join_lines(error)
            store.list()  # raises if it is the whole location that does not answer
            records.append(RetentionCandidate(head=build_damaged_head(place, problems[place.job]), place=place, size=0))
    return decide(records, rules, clock.wall(), problems)


def decide(
    records: Iterable[RetentionCandidate], rules: RetentionRules, now: float, problems: Mapping[str, str] | None = None
) -> RetentionPlan:
    """Apply the rules to some jobs. Pure."""
    by_user: dict[tuple[str, str], list[RetentionCandidate]] = {}
    everything = list(records)
    for each in everything:
        if _may_go(each.head, now) and rules.user in ("", each.head.user):
            # Anyone can write any user into a job's files; grouped by owner too, no user can push out another's jobs.
            by_user.setdefault((each.head.user, each.place.item.owner), []).append(each)
    going: list[RemovedRecord] = []
    for candidates in by_user.values():
        candidates.sort(key=lambda each: (each.head.ended or 0.0, each.head.job), reverse=True)
        going += _apply_to_user(candidates, rules, now)
    going.sort(key=lambda each: (each.record.head.ended or 0.0, each.record.head.job))
    jobs = {removal.record.head.job for removal in going}
    staying = [candidate for candidate in everything if candidate.head.job not in jobs]
    return RetentionPlan(
        going=tuple(going),
        stays=len(staying),
        stays_size=sum(candidate.size for candidate in staying),
        pinned=sum(candidate.head.pinned for candidate in staying),
        unended=sum(candidate.head.ended is None and not candidate.head.damaged for candidate in staying),
        damaged=sum(bool(candidate.head.damaged) for candidate in staying),
        problems=problems or {},
    )


def carry_out(store: FileStore, going: RemovedRecord, to: FileStore | None = None, *, own: bool = False) -> bool:
    """Remove a job, or move it to the dated layout of another location.

    If the process is killed meanwhile, one of the two places has a complete job directory.

    Args:
        own: as for `plan`.

    Returns:
        False if the job must be kept after all, or is at the target already.

    Raises:
        TonyError: a file system does not answer, or denies access.
    """
    record = going.record
    held = store.hold(record.place.path)  # remove exactly the directory that is read here
    item = held.find(record.place.path) if held else None
    entry = read(held, RecordLocation(path=record.place.path, item=item), own=own) if held and item else None
    if held is None or entry is None or not _may_go(entry.head, clock.wall()):  # meanwhile pinned or removed
        return False
    if to is not None:
        assert entry.head.ended is not None
        target = history_layouts.build_dated_path(entry.head.job, entry.head.ended)
        if target == record.place.path and _is_same(store, to, target):
            return False
        move(held, record.place.path, to, target)
    held.remove(join_path(record.place.path, "job.json"))  # first: without it the directory is no job
    held.remove(record.place.path)
    return True


def _is_same(store: FileStore, other: FileStore, path: str) -> bool:
    """Return True if two stores share a folder under different names, by writing a probe file."""
    probe = join_path(path, f".moving-{secrets.token_hex(8)}")
    other.write(probe, b"")
    try:
        return store.find(probe) is not None
    finally:
        other.remove(probe)


#: Parts of a job directory that are not moved: temporary files and secrets.
_NOT_MOVED = frozenset(
    (
        *("work", "secret", "staged", "remains", "am.lock", "am.json", "am.sock", "kill.json", "access.json"),
        "am-start-failures.json",
    )
)


def move(store: FileStore, path: str, to: FileStore, target: str) -> None:
    """Copy a job directory, its summary last, so that a copy with a summary is complete.

    Links and pipes are left out: a link may lead to what only this user may read.

    Raises:
        TonyError: a file system does not answer, or denies access.
    """
    files = [(name, item) for name, item in _iterate_files(store, path) if name.partition("/")[0] not in _NOT_MOVED]
    files.sort(key=lambda each: each[0] == "summary.json")
    for name, item in files:
        existing = to.find(join_path(target, name))
        if existing is None or existing.size != item.size:
            _copy(store, join_path(path, name), to, join_path(target, name))


def compute_size(store: FileStore, path: str) -> int:
    """Return the bytes of all files of a job directory."""
    return sum(item.size for _, item in _iterate_files(store, path))


def _iterate_places(store: FileStore) -> Iterator[RecordLocation]:
    for parent in history_layouts.iterate_parents(store):
        yield from history_layouts.list_places(store, parent)


def _may_go(head: JobHead, now: float) -> bool:
    ended = head.ended is not None and head.state.ended and head.ended < now - RECENT_SECONDS
    return ended and not head.pinned and not head.damaged


def _apply_to_user(
    newest_first: Sequence[RetentionCandidate], rules: RetentionRules, now: float
) -> Iterator[RemovedRecord]:
    size = 0
    for jobs, each in enumerate(newest_first, start=1):
        size += each.size
        why = ""
        if rules.age is not None and now - (each.head.ended or 0.0) > rules.age:
            why = f"it ended {format_duration(now - (each.head.ended or 0.0))} ago"
        if not why and rules.jobs is not None and jobs > rules.jobs:
            why = f"{each.head.user} has {rules.jobs} newer jobs"
        if not why and rules.size is not None and size > rules.size:
            why = f"with {each.head.user}'s newer jobs it takes {format_size(size)}"
        if why:
            yield RemovedRecord(record=each, why=why)


def _iterate_files(store: FileStore, path: str) -> Iterator[tuple[str, Item]]:
    """Yield every file below a folder, with its relative path."""
    todo, seen = [""], 0
    while todo:
        below = todo.pop()
        for item in store.list(join_path(path, below)):
            seen += 1
            if seen > _MAX_ITEMS:
                return
            name = join_path(below, item.name)
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
        for piece in store.read_pieces(path):
            draft.write(piece)
        draft.flush()
        to.write(target, Path(draft.name))


#: Name of the file; see `JobFolder.pinned`.
PIN = "pinned.json"


def pin(store: FileStore, path: str, actor: str) -> bool:
    """Pin a job; return False if it is pinned already.

    Args:
        path: of the job directory.

    Raises:
        TonyError: the file cannot be written.
    """
    if store.find(join_path(path, PIN)):
        return False
    store.write(join_path(path, PIN), json.dumps({"actor": actor, "at": clock.wall()}).encode() + b"\n")
    _touch_parent(store, path)
    return True


def unpin(store: FileStore, path: str) -> bool:
    """Unpin a job; return False if it is not pinned.

    Raises:
        TonyError: the file cannot be removed.
    """
    if not store.find(join_path(path, PIN)):
        return False
    store.remove(join_path(path, PIN))
    _touch_parent(store, path)
    return True


def _touch_parent(store: FileStore, path: str) -> None:
    """Touch the parent folder, so that scanners notice the change."""
    if store.local is not None:
        with contextlib.suppress(OSError):
            os.utime((store.local / path).parent)
