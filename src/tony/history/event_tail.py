"""Incremental reading of a job's event log while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tony.history.event_log import LONGEST_LINE, LogEntry, decode_entry, is_whole, opened, read_header, segments
from tony.model.layout import JobFolder


class EventTail:
    """Reads every event of a job once, over several calls."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._completed_segments = 0
        self._offset = 0
        self._line = 0

    @property
    def continues(self) -> bool:
        """Return True if the log was neither removed nor truncated since the last read."""
        found = segments(self._folder.path)
        try:
            return self._offset == 0 or found[self._completed_segments].stat().st_size >= self._offset
        except (IndexError, OSError):
            return False

    def new(self) -> Iterator[LogEntry]:
        """Yield the events logged since the last call. An incomplete last line is left for the next call.

        Raises:
            RecordError: not a valid event log, or written by a newer version; the message names file and line.
            StorageError: it cannot be read.
        """
        found = segments(self._folder.path)
        for number, path in enumerate(found[self._completed_segments :], start=self._completed_segments + 1):
            yield from self._read_segment(path, number)
            if number < len(found):  # a later AM attempt writes its own segment, so this one is complete
                self._completed_segments, self._offset, self._line = number, 0, 0

    def _read_segment(self, path: Path, attempt: int) -> Iterator[LogEntry]:
        name = str(path)
        with opened(path) as file:
            file.seek(self._offset)
            while is_whole(where := f"{name}:{self._line + 1}", line := file.readline(LONGEST_LINE)):
                self._offset += len(line)
                self._line += 1
                if self._line == 1:
                    read_header(path)
                else:
                    yield decode_entry(where, line, attempt)
