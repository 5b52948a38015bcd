"""How long a program counts as living of which nobody has seen the end. See docs/am-failures.md."""

from __future__ import annotations

#: By how much of itself an executor's clock may be slower than ours. Quartz drifts by 0.01 %; this is for clocks of
#: virtual machines that are being corrected.
DRIFT = 0.05
#: Seconds for an executor to notice that its lease is over, though its host has just woken up, and to end what does not
#: end by itself; and for its watchdog to do so in its place.
SLACK = 30.0


def latest_exit_time(contact: float, lease: float, stop_grace: float) -> float:
    """When an executor has certainly ended its program, which is at its end then or before.

    Args:
        contact: when it was heard last; its lease began no later.
        lease: seconds, as it was told.
        stop_grace: seconds that it gives its program.
    """
    return contact + (lease + stop_grace) * (1 + DRIFT) + SLACK
