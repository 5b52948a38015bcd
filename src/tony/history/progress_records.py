"""Progress and checkpoints reported by user programs, as stored in the job history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tony.model.progress import Progress


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
