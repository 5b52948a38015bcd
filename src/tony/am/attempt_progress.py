"""The steps of one task attempt, as the metrics store keeps them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tony.am.step_rate import StepRate
from tony.model.progress import Progress

#: Intervals between reports of steps kept for each task attempt.
MAX_INTERVALS = 9


@dataclass(slots=True)
class AttemptProgress:
    """The progress of one task attempt.

    Attributes:
        best: the highest step of all task attempts before it; None if there was none.
        rate: at which it makes steps now.
        changed: since it was written.
        reports: reports of steps so far.
        intervals: seconds between the last of them.
        longest: the longest pause between two reports so far.
    """

    progress: Progress
    best: float | None
    rate: StepRate
    changed: bool = True
    reports: int = 1
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_INTERVALS))
    longest: float = 0.0
