"""Reads the list entry of one job directory, within memory bounds; a damaged job is reported as such."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tony.errors import RecordError, join_lines
from tony.history.directory_scan import head_from
from tony.history.json_files import MAX_FOREIGN_JSON_BYTES, check_foreign_json, decode_json, limit_decoding
from tony.model.job_summary import JobHead
from tony.model.state_directory import JobFolder
from tony.model.states import JobState
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.jhist_reader import read_head as read_jhist_head
from tony.portal.job_index.index_schema import IndexEntry
from tony.storage.stores.store_interface import FileStore, Item, join_path

#: Maximum bytes of the two files: the summary of a job with 100,000 tasks has 40 MiB.
MAX_JOB_BYTES = 16 << 20
MAX_SUMMARY_BYTES = 64 << 20
#: Bytes at the end of an event log from which the state is read.
_TAIL_BYTES = 64 << 10
#: Files of an event log read for it, at most: the newest.
_MAX_TAILS = 4
#: Files other than the event log that determine a list entry.
_STATUS_FILES = frozenset(("job.json", "summary.json", "pinned.json"))
_SEGMENT = re.compile(r"events\.(\d{1,9})\.(?:closed\.)?jsonl", re.ASCII)
_KIND = re.compile(rb'"event":"([a-z-]{1,40})"')
#: Event kind -> state after it.
_STATE_AFTER = {
    b"queued": JobState.QUEUED,
    b"granted": JobState.STARTING,
    b"registered": JobState.STARTING,
    b"started": JobState.RUNNING,
    b"first-output": JobState.RUNNING,
    b"session-opened": JobState.STARTING,
}


def build_stamp(store: FileStore, item: Item) -> str:
    """Return a stamp that changes when a file in the folder is created or replaced; empty if folders have no times."""
    return repr(item.changed) if store.dated else ""


def open_stamp(store: FileStore, place: RecordLocation) -> str:
    """Return the stamp of a job that has not ended; it includes the event log, whose growth leaves the folder as is."""
    items = store.list(place.path)
    segments = _list_segments(items)
    if store.dated:
        return f"{place.item.changed!r} {segments[-1].name} {segments[-1].size}" if segments else ""
    telling = [item for item in items if item.name in _STATUS_FILES] + segments[-1:]
    return " ".join(f"{item.name} {item.size} {item.changed!r}" for item in sorted(telling, key=lambda item: item.name))


def read(store: FileStore, place: RecordLocation, *, own: bool = False) -> IndexEntry | None:
    """Return the entry of one job; None if there is no job in that folder (yet).

    A damaged job yields an entry as well.

    Args:
        own: the job is in the user's own state directory; lower limits apply to jobs of other users.

    Raises:
        TonyError: the file system does not answer, or denies access.
    """
    stamp = build_stamp(store, place.item)
    try:
        head = _read_head(store, place, own=own)
    except (RecordError, ValueError, RecursionError) as error:
        head = build_damaged_head(place, join_lines(error))
    if head is None:
        return None
    if head.ended is None and not (head.damaged and store.dated):
        stamp = open_stamp(store, place)
    if store.find(join_path(place.path, "pinned.json")):
        head = replace(head, pinned=True)
    return IndexEntry(head=head, place=store.address, path=place.path, stamp=stamp)


def build_damaged_head(place: RecordLocation, why: str) -> JobHead:
    """Return the entry of a job that cannot be read, from its folder's metadata."""
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


def _read_head(store: FileStore, place: RecordLocation, *, own: bool) -> JobHead | None:
    job = _read_bounded(store, join_path(place.path, "job.json"), MAX_JOB_BYTES, own=own)
    if job is None:
        return _build_head_without_job(store, place)
    summary = _read_bounded(store, join_path(place.path, "summary.json"), MAX_SUMMARY_BYTES, own=own)
    with limit_decoding(job + (summary or b"")):
        # Named by its path in the location, for error messages.
        head = head_from(
            JobFolder(Path(place.path)),
            decode_json(join_path(place.path, "job.json"), job),
            decode_json(join_path(place.path, "summary.json"), summary),
        )
    return head if head.state.ended else _with_logged_state(store, place, head)


def _read_bounded(store: FileStore, path: str, most: int, *, own: bool) -> bytes | None:
    if own:
        return store.read(path, most)
    content = store.read(path, min(most, MAX_FOREIGN_JSON_BYTES))
    if content is not None:
        check_foreign_json(content, path)
    return content


def _build_head_without_job(store: FileStore, place: RecordLocation) -> JobHead | None:
    """Return a job of LinkedIn TonY, or the remains of one of tony's."""
    items = store.list(place.path)
    names = {item.name for item in items if not item.folder}
    if "job.json" in names:  # it was just created or removed: the next scan finds out
        return None
    if any(name.endswith((".jhist", ".jhist.inprogress")) for name in names):
        return read_jhist_head(store, place, items)
    if names & {"summary.json", "am.log"} or any(map(_SEGMENT.fullmatch, names)):
        return build_damaged_head(place, "job.json is missing")
    return None


def _with_logged_state(store: FileStore, place: RecordLocation, head: JobHead) -> JobHead:
    """Set state, sessions and restarts of a job that has not ended from the end of its event log.

    Its AM is not queried. A new AM attempt continues the log in a new file, in which the state may follow much later.
    """
    segments = _list_segments(store.list(place.path))
    if not segments:
        return head
    state, session = None, 0
    for segment in segments[: -_MAX_TAILS - 1 : -1]:
        earlier_state, earlier_session = _read_logged_state(store, place, segment)
        state, session = state or earlier_state, max(session, earlier_session)
        if state and session:
            break
    sessions = max(head.sessions, session)
    restarts = max(head.restarts, sessions - 1)
    return replace(head, state=state or JobState.STARTING, sessions=sessions, restarts=restarts)


def _read_logged_state(store: FileStore, place: RecordLocation, segment: Item) -> tuple[JobState | None, int]:
    """Return the state after the end of a file of the event log, None if not known there, and the session, or 0."""
    pieces = store.read_pieces(join_path(place.path, segment.name), max(0, segment.size - _TAIL_BYTES))
    state, session = None, 0
    for line in b"".join(pieces)[-_TAIL_BYTES:].splitlines():
        found = _KIND.search(line)
        if found and found[1] in _STATE_AFTER:
            state = _STATE_AFTER[found[1]]
            session = max(session, _parse_session(line))
    return state, session


def _parse_session(line: bytes) -> int:
    try:
        number = json.loads(line)["data"]["session"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return number if type(number) is int and 0 < number < 1_000_000 else 0


def _list_segments(items: Sequence[Item]) -> list[Item]:
    numbered = [(int(found[1]), item) for item in items if (found := _SEGMENT.fullmatch(item.name))]
    return [item for _, item in sorted(numbered, key=lambda each: each[0])]
