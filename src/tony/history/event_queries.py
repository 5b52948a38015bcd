"""Parts of an event log: its first or last events, and the sessions and task restarts in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tony.core.events import Event, FailureClassified, FailureResponse, GangSizeSet, SessionOpened
from tony.errors import RecordError, StorageError
from tony.history import event_log
from tony.history.event_log import LogEntry, decode_entry, read_lines, segments
from tony.model.state_directory import JobFolder

#: Bytes per read when an event log is read backwards from its end.
_BLOCK = 64 << 10
#: How many events before the last one a request may start.
MAX_LATEST_EVENTS = 100_000
#: Maximum bytes of events in one answer.
_MAX_EVENT_BYTES = 16 << 20


def read_events(folder: JobFolder, after: int, most: int, kinds: Set[str], *, own: bool) -> list[LogEntry]:
    """Read events. Numbers are consecutive over all segments, so unwanted events are only counted, not decoded."""
    if not own:
        event_log.check_foreign_length(folder.path, event_log.MAX_FOREIGN_LISTED_LOG_BYTES)
    found: list[LogEntry] = []
    segments = event_log.segments(folder.path)
    words = [f'"{kind}"'.encode() for kind in kinds]
    if after < 0:
        return [entry for entry in _read_latest(segments, -after) if not kinds or entry.event.kind in kinds][:most]
    number = size = 0
    for path, place, line, attempt in event_log.read_lines(segments):
        number += 1
        if number > after and (not words or any(word in line for word in words)):
            entry = event_log.decode_entry(f"{path}:{place}", line, attempt)
            if kinds and entry.event.kind not in kinds:
                continue
            found.append(entry)
            if len(found) >= most:
                break
            size += len(line)
            _check_event_bytes(path, size)
    return found


def _check_event_bytes(path: Path, size: int) -> None:
    if size > _MAX_EVENT_BYTES:
        raise RecordError(f"{path}: these events have more than {_MAX_EVENT_BYTES >> 20} MiB; request fewer at a time")


def _read_latest(segments: Sequence[Path], most: int) -> list[LogEntry]:
    """Read the last events, without reading the whole log."""
    found: list[LogEntry] = []
    for attempt in range(len(segments), 0, -1):
        path = segments[attempt - 1]
        lines = _read_last_lines(path, most - len(found))
        found = [event_log.decode_entry(f"{path}, near its end", line, attempt) for line in lines] + found
        if len(found) >= most:
            break
    return found


def _read_last_lines(path: Path, most: int) -> list[bytes]:
    """Return the last complete lines of a segment, without its first line, the header."""
    with event_log.open_segment(path) as file:
        start = end = file.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        newlines = 0
        while start and newlines < most + 2:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            blocks.append(file.read(size))
            newlines += blocks[-1].count(b"\n")
            _check_event_bytes(path, end - start)
    # The text after the last newline is incomplete; the first line is the header or cut off.
    return b"".join(reversed(blocks)).split(b"\n")[1:-1][-most:]


E = TypeVar("E", bound=Event)
#: A job directory, to read the event log from; or events obtained elsewhere, at least those of `TELLING`.
EventSource = JobFolder | Sequence[Event]
TELLING: tuple[type[Event], ...] = (SessionOpened, GangSizeSet, FailureClassified)


def read_session_sizes(source: EventSource) -> dict[int, GangSizeSet]:
    """Return session -> number of tasks it started with, for jobs with elastic roles."""
    found: dict[int, GangSizeSet] = {}
    for event in _events(source, GangSizeSet):
        known = found.get(event.session)
        if known:  # a later role of the same session started
            event = replace(event, tasks={**known.tasks, **event.tasks}, absent={**known.absent, **event.absent})
        found[event.session] = event
    return found


def read_session_reasons(source: EventSource) -> dict[int, str]:
    """Return session -> why it started; invalid lines of the event log are skipped."""
    return {event.session: event.reason for event in _events(source, SessionOpened)}


def list_lone_restarts(source: EventSource) -> list[tuple[int, FailureClassified]]:
    """Return session and failure of each individual task restart, in order."""
    session = 0
    found = []
    for event in _events(source, SessionOpened, FailureClassified):
        if isinstance(event, SessionOpened):
            session = event.session
        elif isinstance(event, FailureClassified) and event.decision is FailureResponse.RETRY:
            found.append((session, event))
    return found


def _events(source: EventSource, *classes: type[E]) -> Iterator[E]:
    """Yield events of some kinds. Other lines are not even decoded: a log may be very long."""
    if not isinstance(source, JobFolder):
        yield from (event for event in source if isinstance(event, classes))
        return
    kinds = [cls.kind.encode() for cls in classes]
    with contextlib.suppress(RecordError, StorageError):
        for path, number, line, attempt in read_lines(segments(source.path)):
            if any(kind in line for kind in kinds):
                with contextlib.suppress(RecordError):
                    event = decode_entry(f"{path}:{number}", line, attempt).event
                    if isinstance(event, classes):
                        yield event
