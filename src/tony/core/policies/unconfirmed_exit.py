"""Time for which a program whose end was not confirmed counts as running. See docs/am-failures.md."""

from __future__ import annotations

#: Fraction by which an executor's clock may be slower than the AM's. Quartz drifts by 0.01 %; this allows for clocks
#: of virtual machines that are being corrected.
DRIFT = 0.05
#: Seconds for an executor to notice that its lease has expired, even if its host has just resumed, and to kill what
#: does not stop; and for its watchdog to do so in its place.
SLACK = 30.0


def compute_latest_exit_time(contact: float, lease: float, stop_grace: float) -> float:
    """Return when an executor has certainly stopped its program.

    Args:
        contact: when it was last heard; its lease began no later.
        lease: seconds, as reported to the executor.
        stop_grace: seconds that it gives its program to stop.
    """
    return contact + (lease + stop_grace) * (1 + DRIFT) + SLACK
