"""Reads one record, as little of it as a list needs: bounded in memory, and damaged ones are said to be so."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tony.dataclass import replace
from tony.errors import RecordError
from tony.history.job_listing import head_from
from tony.history.json_files import LONGEST_OF_OTHERS, check_json_of_others, decoding
from tony.model.codec import Json
from tony.model.job_summary import JobHead
from tony.model.json_text import BadJson, loads
from tony.model.layout import JobFolder
from tony.model.states import JobState
from tony.portal.history_layouts import RecordLocation
from tony.portal.index_entry import IndexEntry
from tony.storage.store import FileStore, Item, joined

#: Bytes of the two files: that of a job of a hundred thousand tasks has 40 MiB.
MOST_JOB, MOST_SUMMARY = 16 << 20, 64 << 20
#: Bytes of the end of an event log that tell how a job stands.
_TAIL = 64 << 10
#: Files that tell how a job stands, besides its event log.
_TELLING = frozenset(("job.json", "summary.json", "pinned.json"))
_SEGMENT = re.compile(r"events\.(\d{1,9})\.(?:closed\.)?jsonl", re.ASCII)
_KIND = re.compile(rb'"event":"([a-z-]{1,40})"')
#: What the end of a log says: kind of event -> where the job stands after it.
_STANDS = {
    b"queued": JobState.QUEUED,
    b"granted": JobState.STARTING,
    b"registered": JobState.STARTING,
    b"started": JobState.RUNNING,
    b"first-output": JobState.RUNNING,
    b"session-opened": JobState.STARTING,
}


def stamp_of(store: FileStore, item: Item) -> str:
    """What changes when something in a record's folder is made or replaced; empty where nothing says so."""
    return repr(item.changed) if store.dated else ""


def open_stamp(store: FileStore, place: RecordLocation) -> str:
    """The same for a job that has not ended: its event log grows without that its folder changes."""
    there = store.list(place.path)
    segments = _segments(there)
    if store.dated:
        return f"{place.item.changed!r} {segments[-1].name} {segments[-1].size}" if segments else ""
    telling = [item for item in there if item.name in _TELLING] + segments[-1:]
    return " ".join(f"{item.name} {item.size} {item.changed!r}" for item in sorted(telling, key=lambda item: item.name))


def read(store: FileStore, place: RecordLocation, *, own: bool = False) -> IndexEntry | None:
    """One record; None if there is none in that folder (yet).

    A damaged one is an answer as well.

    Args:
        own: it is of our own history; of another user's less is read.

    Raises:
        TonyError: the file system refuses, or does not answer.
    """
    stamp = stamp_of(store, place.item)
    try:
        head = _head(store, place, own=own)
    except (RecordError, ValueError, RecursionError) as error:
        head = damaged(place, " ".join(str(error).split()) or type(error).__name__)
    if head is None:
        return None
    if head.ended is None and not (head.damaged and store.dated):
        stamp = open_stamp(store, place)
    if store.find(joined(place.path, "pinned.json")):
        head = replace(head, pinned=True)
    return IndexEntry(head=head, place=store.address, path=place.path, stamp=stamp)


def damaged(place: RecordLocation, why: str) -> JobHead:
    """A record that cannot be read: all that the file system says of it."""
    return JobHead(
        job=place.job,
        name="",
        state=JobState.FAILED,
        user=place.item.owner,
        scheduler="",
        framework="",
        tasks=None,
        submitted=place.item.changed,
        damaged=why,
    )


def _head(store: FileStore, place: RecordLocation, *, own: bool) -> JobHead | None:
    job = _text(store, joined(place.path, "job.json"), MOST_JOB, own=own)
    if job is None:
        return _without_job(store, place)
    summary = _text(store, joined(place.path, "summary.json"), MOST_SUMMARY, own=own)
    with decoding(job + (summary or b"")):
        # Named by where it lies in its location.
        head = head_from(
            JobFolder(Path(place.path)),
            _decode(joined(place.path, "job.json"), job),
            None if summary is None else _decode(joined(place.path, "summary.json"), summary),
        )
    return head if head.state.ended else _standing(store, place, head)


def _text(store: FileStore, path: str, most: int, *, own: bool) -> bytes | None:
    if own:
        return store.read(path, most)
    content = store.read(path, min(most, LONGEST_OF_OTHERS))
    if content is not None:
        check_json_of_others(content, path)
    return content


def _decode(path: str, content: bytes) -> Json:
    try:
        return loads(content, halves=True)
    except BadJson as error:
        raise RecordError(f"{path} is not JSON: {error}") from error


def _without_job(store: FileStore, place: RecordLocation) -> JobHead | None:
    """The original's, or what is left of one of ours."""
    from tony.portal.jhist_reader import head as original

    there = store.list(place.path)
    names = {item.name for item in there if not item.folder}
    if "job.json" in names:  # it came, or went, since we looked: the next look sees what is left
        return None
    if any(name.endswith((".jhist", ".jhist.inprogress")) for name in names):
        return original(store, place, there)
    if names & {"summary.json", "am.log"} or any(map(_SEGMENT.fullmatch, names)):
        return damaged(place, "job.json is missing")
    return None


def _standing(store: FileStore, place: RecordLocation, head: JobHead) -> JobHead:
    """A job that has not ended, as far as the end of its event log says; it is not asked itself."""
    segments = _segments(store.list(place.path))
    if not segments:
        return head
    newest = segments[-1]
    tail = b"".join(store.pieces(joined(place.path, newest.name), max(0, newest.size - _TAIL)))[-_TAIL:]
    state = JobState.STARTING
    sessions = head.sessions
    for line in tail.splitlines():
        found = _KIND.search(line)
        if found and found[1] in _STANDS:
            state = _STANDS[found[1]]
        if found and found[1] == b"session-opened":
            sessions = max(sessions, _session(line))
    return replace(head, state=state, sessions=sessions)


def _session(line: bytes) -> int:
    try:
        number = json.loads(line)["data"]["session"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return number if type(number) is int and 0 < number < 1_000_000 else 0


def _segments(there: Sequence[Item]) -> list[Item]:
    numbered = [(int(found[1]), item) for item in there if (found := _SEGMENT.fullmatch(item.name))]
    return [item for _, item in sorted(numbered, key=lambda each: each[0])]
