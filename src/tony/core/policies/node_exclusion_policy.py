"""Decides which hosts get no further container for a while: those on which tasks failed repeatedly."""

from __future__ import annotations

from collections.abc import Iterable

from tony.model.job_report import Failure, FailureCause, FailureClass

#: Failures on one host within the window after which it is excluded.
MAX_HOST_FAILURES = 2
#: Length of that window in seconds.
WINDOW_SECONDS = 3600.0
#: Seconds that a host is excluded.
EXCLUSION_SECONDS = 3600.0


def may_be_host_failure(failure: Failure) -> bool:
    """Return True if the host may have caused a failure: it ran there, and neither a user nor the cluster ended it."""
    taken_away = failure.blameless and failure.cause is FailureCause.LOST
    return failure.host is not None and failure.failure_class is not FailureClass.KILLED and not taken_away


def select_recent(times: Iterable[float], now: float) -> list[float]:
    """Return the failure times that still count."""
    return [at for at in times if at > now - WINDOW_SECONDS]


def is_bad(times: Iterable[float], now: float) -> bool:
    """Return True if a host with failures at these times is to be excluded."""
    return len(select_recent(times, now)) >= MAX_HOST_FAILURES
