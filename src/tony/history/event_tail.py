"""Reading on in a job's event log while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tony.history.event_log import LONGEST_LINE, LogEntry, decode_entry, is_whole, opened, read_header, segments
from tony.model.layout import JobFolder


class EventTail:
    """Every event of a job, each once, over as many calls as it takes."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._done = 0
        self._offset = 0
        self._line = 0

    @property
    def continues(self) -> bool:
        """Whether the log goes on where it was read last: it was not taken away, and is no shorter."""
        found = segments(self._folder.path)
        try:
            return self._offset == 0 or found[self._done].stat().st_size >= self._offset
        except (IndexError, OSError):
            return False

    def new(self) -> Iterator[LogEntry]:
        """What was logged since the last call. A line that is not whole yet waits for the next one.

        Raises:
            RecordError: not an event log, one of a newer version, or not what it should be; names file and line.
            StorageError: it cannot be read.
        """
        found = segments(self._folder.path)
        for number, path in enumerate(found[self._done :], start=self._done + 1):
            yield from self._read_on(path, number)
            if number < len(found):  # a later attempt writes its own: this segment is complete
                self._done, self._offset, self._line = number, 0, 0

    def _read_on(self, path: Path, attempt: int) -> Iterator[LogEntry]:
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
