"""Time as the shells see it. The core gets time as an argument and never comes here."""

from __future__ import annotations

import time
from datetime import UTC, datetime

#: A line of our own logs. Its time is UTC, as everywhere in a record: the formatter's `converter` is `time.gmtime`.
LOG_LINE = "%(asctime)sZ %(levelname)s %(name)s: %(message)s"


def monotonic() -> float:
    """Seconds that go on through a suspended machine and never jump with the wall clock (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Seconds since 1970 (UTC): a label on records, never compared to decide anything."""
    return time.time()


def processor() -> float:
    """Seconds of processor time of this thread: what something costs, however busy the machine is."""
    return time.thread_time()


def stamp(seconds: float) -> str:
    """ISO 8601 text, UTC, to the millisecond, for a wall-clock time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
