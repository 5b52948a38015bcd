"""Clocks for the code around the core, which gets the time as an argument."""

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
