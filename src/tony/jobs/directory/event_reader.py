"""Reads a part of a job's event log, from its beginning or from its end."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from pathlib import Path

from tony.errors import RecordError
from tony.history import event_log
from tony.history.event_log import LogEntry
from tony.model.layout import JobFolder

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
