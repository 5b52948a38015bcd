"""What programs tell of themselves, and what is kept of it for good: how far they came, and what they saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one try of a task came. Times are seconds since the job was accepted.

    Attributes:
        first_step, first_at: what it told first, and when; at -1 nothing is known of it.
        step, at: what it told last, and when.
        total: steps that it is going to make, as it says; None if it does not.
        regained: when it passed the highest step of the tries before it; None if it did not, or there was none.
        behind: it began below that step.
        unlisted: seconds that it took for checkpoints of which each alone was not kept: there were too many.
    """

    task: str
    session: int
    try_: int
    first_step: float
    first_at: float
    step: float
    at: float
    total: float | None = None
    regained: float | None = None
    behind: bool = False
    unlisted: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One that a program has saved, from `since` to `until` (seconds since the job was accepted)."""

    task: str
    session: int
    try_: int
    step: int
    since: float
    until: float


def share_of(step: float | None, total: float | None, *, succeeded: bool) -> float | None:
    """Which part of its steps is made, 0 to 1; None if that cannot be said.

    A program that counts from 0 tells 49 of 50 last, and one that may stop early tells less: of what has succeeded,
    anything but the whole does not say how far it is.
    """
    if step is None or not total:
        return None
    share = min(1.0, max(0.0, step / total))
    return None if succeeded and share < 1.0 else share


class Marks(Protocol):
    """Where such things are found."""

    def progress(self, task: str | None = None) -> Sequence[Progress]:
        """Of one task, or of all, in the order of sessions and tries."""

    def checkpoints(self, task: str | None = None) -> Sequence[Checkpoint]:
        """Of one task, or of all, in the order of time."""
