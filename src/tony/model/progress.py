"""The progress of programs: reported steps and checkpoints, of a task and of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one task attempt. Times are seconds since the job was accepted.

    Attributes:
        first_step, first_at: the first reported step, and when; -1: nothing was reported.
        step, at: the last reported step, and when.
        total: total steps reported by the program; None if it reports none.
        regained: when it passed the highest step of earlier task attempts; None if it did not, or there were none.
        behind: it began below that step.
        unlisted: seconds spent on checkpoints that are not stored individually because there were too many.
        stalled_after: seconds without a report after which it counts as stalled; None: not known.
        stalls: intervals in which it was stalled before it continued, in order.
        changed_at: when it first reported its last step; None: at the last report.
        recent_rate: steps per second of about the last minute up to the last report; None if not known.
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
    stalled_after: float | None = None
    stalls: tuple[tuple[float, float], ...] = ()
    changed_at: float | None = None
    recent_rate: float | None = None

    @property
    def advanced_at(self) -> float:
        """Return when it first reported its last step."""
        return self.at if self.changed_at is None else self.changed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """The progress of a task.

    Attributes:
        share: 0 to 1; None where its program reports no total, or has succeeded with fewer steps.
        rate: steps per second of about the last minute, without stalls; None while it makes no step, or its next report
            is overdue.
        left: estimated seconds to its last step; None if not known, it does not run, or its next report is overdue.
        age: seconds since its last report; None if it does not run.
        overdue: seconds since its last report if the next one is overdue, but it is not stalled; None otherwise.
        stalled: seconds since it stalled; None if it is not stalled.
        waits_for: the stalled task that is the reason why it is stalled, too; else empty.
    """

    task: str
    step: float
    total: float | None
    share: float | None
    rate: float | None
    left: float | None
    age: float | None
    overdue: float | None
    stalled: float | None
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where a task attempt continued after a restart.

    Attributes:
        first_step: the first that it reported.
        reached: the highest step of the attempts before.
        earliest: the first step of the first attempt.
    """

    first_step: float
    reached: float
    earliest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress(TaskProgress):
    """The task that delays the job: a stalled one, else the slowest. Succeeded tasks do not count.

    Attributes:
        tasks: number of tasks that have reported steps in the last session.
    """

    tasks: int


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A saved checkpoint; it took from `since` to `until` (seconds since the job was accepted)."""

    task: str
    session: int
    try_: int
    step: int
    since: float
    until: float


class ProgressRecords(Protocol):
    """A store of reported progress and checkpoints."""

    @property
    def known_until(self) -> float | None:
        """Seconds since the job was accepted, up to which reports are complete; None if they are complete."""

    def progress(self, task: str | None = None) -> Sequence[Progress]:
        """Return the progress of one task, or of all, ordered by session and task attempt."""

    def checkpoints(self, task: str | None = None) -> Sequence[CheckpointRecord]:
        """Return the checkpoints of one task, or of all, ordered by time."""
