"""What programs tell of themselves, and what is kept of it for good: how far they came, and what they saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tony.dataclass import dataclass
from tony.model.progress import Progress


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One that a program has saved, from `since` to `until` (seconds since the job was accepted)."""

    task: str
    session: int
    try_: int
    step: int
    since: float
    until: float


class ProgressRecords(Protocol):
    """Where such things are found."""

    @property
    def known_until(self) -> float | None:
        """Seconds since the job was accepted, up to which they are known; None: to the end of what is asked for."""

    def progress(self, task: str | None = None) -> Sequence[Progress]:
        """Of one task, or of all, in the order of sessions and tries."""

    def checkpoints(self, task: str | None = None) -> Sequence[CheckpointRecord]:
        """Of one task, or of all, in the order of time."""
