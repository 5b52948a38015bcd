"""The job's own time: seconds since it was accepted, monotonic across AM attempts."""

from __future__ import annotations

from tony import clock


class JobClock:
    """Derives the job's time from the monotonic clock.

    Args:
        start: the time to begin with: 0 for a new job, the last logged value plus the time passed since then for a
            later AM attempt.
    """

    def __init__(self, start: float) -> None:
        self._start = max(0.0, start)
        self._base = clock.monotonic()

    def now(self) -> float:
        """Return seconds since the job was accepted, rounded to microseconds so that a log holds them exactly."""
        return round(self._start + clock.monotonic() - self._base, 6)
