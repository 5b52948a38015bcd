"""Clocks for the code around the core, which gets the time as an argument: of the machine, and of a job."""

from __future__ import annotations

import time
from datetime import UTC, datetime

#: Format of tony's own log lines. Times are UTC, as in all records: the formatter's `converter` is `time.gmtime`.
LOG_LINE = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"


def monotonic() -> float:
    """Return seconds that keep counting while the machine is suspended and never jump (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Return seconds since 1970 (UTC): for labels in records, never for decisions."""
    return time.time()


def processor() -> float:
    """Return the CPU seconds of this thread: the cost of work, however busy the machine is."""
    return time.thread_time()


def stamp(seconds: float) -> str:
    """Return an ISO 8601 text in UTC, to the millisecond, for seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JobClock:
    """Derives the job's time from the monotonic clock.

    Args:
        start: the time to begin with: 0 for a new job, the last logged value plus the time passed since then for a
            later AM attempt.
    """

    def __init__(self, start: float) -> None:
        self._start = max(0.0, start)
        self._base = monotonic()

    def now(self) -> float:
        """Return seconds since the job was accepted, rounded to microseconds so that a log holds them exactly."""
        return round(self._start + monotonic() - self._base, 6)
