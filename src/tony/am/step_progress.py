"""The progress of a task attempt, from its reported steps: pace, stalls, steps regained after a restart. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tony.model.progress import (
    STALLED_AFTER_INTERVALS,
    STALLED_AFTER_SECONDS,
    STALLED_AFTER_UNKNOWN_SECONDS,
    Progress,
    find_step_seconds,
    is_stalled,
)

#: Intervals between reports, and stalls, kept for each task attempt; of more stalls the shortest are dropped.
MAX_INTERVALS = 9
_MAX_STALLS = 200
#: Stalls of one task attempt that are sent to a client one by one.
_STALLS_SENT_COUNT = 3
#: Minimum number of intervals for a meaningful median.
_FEWEST_INTERVALS = 2


@dataclass(slots=True)
class AttemptProgress:
    """The progress of one task attempt.

    Attributes:
        best: the highest step of all task attempts before it; None if there was none.
        changed: since it was written.
        reports: reports of steps so far.
        intervals: seconds between the last of them.
    """

    progress: Progress
    best: float | None
    changed: bool = True
    reports: int = 1
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_INTERVALS))


def find_stall_limit(intervals: Sequence[float]) -> float:
    """Return after how many seconds without a report a program counts as stalled.

    Programs that report seldom, such as those whose steps are read from files, have long limits.
    """
    if len(intervals) < _FEWEST_INTERVALS:
        return STALLED_AFTER_UNKNOWN_SECONDS
    median = sorted(intervals)[len(intervals) // 2]
    return max(STALLED_AFTER_SECONDS, STALLED_AFTER_INTERVALS * median)


def add_stall(progress: Progress, step: float, at: float) -> tuple[tuple[float, float], ...]:
    """Return the stalls of a task attempt that has reported `step` at `at`.

    Where many steps arrive at once, as after lost reports, they took their time: only the rest is a stall.
    """
    seconds = find_step_seconds(progress) or 0.0
    until = at - seconds * max(1.0, step - progress.step)
    if not is_stalled(progress, until):
        return progress.stalls
    stalls = [*progress.stalls, (round(progress.at, 3), round(until, 3))]
    if len(stalls) > _MAX_STALLS:
        stalls.remove(min(stalls, key=lambda stall: stall[1] - stall[0]))
    return tuple(stalls)


def condense_stalls(progress: Progress) -> Progress:
    """Replace many stalls by one of the same total length, since a message holds a megabyte."""
    if len(progress.stalls) <= _STALLS_SENT_COUNT:
        return progress
    return replace(
        progress,
        stalls=((progress.first_at, progress.first_at + sum(until - since for since, until in progress.stalls)),),
    )


def interpolate_step_time(progress: Progress, best: float, step: float, at: float) -> float:
    """Return when a program passed step `best`, between two reported steps."""
    if step <= progress.step or at <= progress.at:
        return at
    share = (best - progress.step) / (step - progress.step)
    return progress.at + max(0.0, min(1.0, share)) * (at - progress.at)
