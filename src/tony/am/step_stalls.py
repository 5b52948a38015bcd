"""Stalls of a task attempt: the times in which it reported no step for unusually long. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tony.am.medians import find_median
from tony.model.progress import Progress
from tony.model.progress_rules import (
    STALLED_AFTER_INTERVALS,
    STALLED_AFTER_SECONDS,
    STALLED_AFTER_UNKNOWN_SECONDS,
    find_step_seconds,
    is_stalled,
)

#: Stalls kept for each task attempt; of more the shortest are dropped.
_MAX_STALLS = 200
#: Stalls of one task attempt that are sent to a client one by one.
_STALLS_SENT_COUNT = 3
#: Minimum number of intervals for a meaningful median.
_FEWEST_INTERVALS = 2


def find_usual_interval(intervals: Sequence[float], fewest: int = _FEWEST_INTERVALS) -> float | None:
    """Return the median of the pauses between reports; None while fewer than `fewest` are known."""
    return find_median(intervals) if len(intervals) >= fewest else None


def find_stall_limit(intervals: Sequence[float]) -> float:
    """Return after how many seconds without a report a program counts as stalled.

    Programs that report seldom, such as those whose steps are read from files, have long limits.
    """
    median = find_usual_interval(intervals)
    if median is None:
        return STALLED_AFTER_UNKNOWN_SECONDS
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
