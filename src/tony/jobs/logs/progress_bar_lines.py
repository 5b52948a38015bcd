"""A task's output for display: progress bars move, and incomplete lines appear after a while."""

from __future__ import annotations

from collections.abc import Iterator

from tony import clock
from tony.jobs.logs.log_reader import LogLine, LogReader

#: Seconds after which an incomplete line is shown; also the shortest interval between two states of a progress bar.
PARTIAL_LINE_SECONDS = 1.0


class LiveReader(LogReader):
    """Reads lines; of those that overwrite themselves (`\\r 25%\\r 50%`) only the newest state.

    A line that stays incomplete for a while is shown so far; its continuation is then a line of its own.
    """

    _incomplete_since: float | None = None
    _is_continued = False

    @property
    def due(self) -> float | None:
        """The time to call `take`, in monotonic seconds; None if there is no incomplete line."""
        return None if self._incomplete_since is None else self._incomplete_since + PARTIAL_LINE_SECONDS

    def read(self) -> Iterator[LogLine]:
        """Yield new lines, as `LogReader.read` does."""
        for line in super().read():
            self._incomplete_since = None
            begun, self._is_continued = self._is_continued, False
            newest = _find_last_state(line.data)
            if newest or not begun:  # of a line that was shown already, nothing may be left but its end
                yield LogLine(self.name, newest)
        if self._incomplete_since is None and self.unfinished:
            self._incomplete_since = clock.monotonic()

    def take(self) -> Iterator[LogLine]:
        """Yield the incomplete line read so far, if any."""
        self._incomplete_since = None
        for line in super().take():
            newest = _find_last_state(line.data)
            if newest:
                self._is_continued = True
                yield LogLine(self.name, newest)


def _find_last_state(data: bytes) -> bytes:
    """Return the last non-blank state of a line that overwrites itself."""
    if b"\r" not in data:
        return data
    states = (state for state in reversed(data.split(b"\r")) if state.strip())
    return next(states, b"")
