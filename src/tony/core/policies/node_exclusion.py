"""Which hosts get no further container of the job for a while: those on which tasks failed again and again."""

from __future__ import annotations

from collections.abc import Iterable

from tony.model.job_report import Failure, FailureClass

#: Failures on one host within the window after which it is excluded.
FAILURES = 2
#: Seconds in which they must lie.
WINDOW = 3600.0
#: Seconds that a host is excluded.
LENGTH = 3600.0


def counts(failure: Failure) -> bool:
    """Whether a failure may be its host's fault: it happened on one, and neither people nor the cluster wanted it."""
    taken_away = failure.blameless and failure.cause == "lost"
    return failure.host is not None and failure.failure_class is not FailureClass.KILLED and not taken_away


def recent(times: Iterable[float], now: float) -> list[float]:
    """The failures that count now."""
    return [at for at in times if at > now - WINDOW]


def is_bad(times: Iterable[float], now: float) -> bool:
    """Whether a host with failures at these times is to be excluded."""
    return len(recent(times, now)) >= FAILURES
