"""A task's output for somebody who looks on: progress bars move, and what waits for its line's end shows."""

from __future__ import annotations

from collections.abc import Iterator

from tony import clock
from tony.jobs.log_reader import LogLine, LogReader

#: Seconds that something without an end waits for it. So often, at most, a progress bar's state is shown.
PATIENCE = 1.0


class LiveReader(LogReader):
    """Reads lines, and of those that overwrite themselves (`\\r 25%\\r 50%`) only the newest state.

    A line that nobody ends for a while is shown as far as it got; what follows then is a line of its own.
    """

    _since: float | None = None
    _begun = False

    @property
    def due(self) -> float | None:
        """When `take` should be called, in monotonic seconds; None if nothing waits."""
        return None if self._since is None else self._since + PATIENCE

    def read(self) -> Iterator[LogLine]:
        """As of any reader."""
        for line in super().read():
            self._since = None
            begun, self._begun = self._begun, False
            newest = _newest(line.data)
            if newest or not begun:  # of a line that was shown already, only the end is left
                yield LogLine(self.name, newest)
        if self._since is None and self.unfinished:
            self._since = clock.monotonic()

    def take(self) -> Iterator[LogLine]:
        """What has no end yet, as a line of its own."""
        self._since = None
        for line in super().take():
            newest = _newest(line.data)
            if newest:
                self._begun = True
                yield LogLine(self.name, newest)


def _newest(data: bytes) -> bytes:
    """The last state of a line that overwrites itself; blank ones only wipe it out."""
    if b"\r" not in data:
        return data
    states = (state for state in reversed(data.split(b"\r")) if state.strip())
    return next(states, b"")
