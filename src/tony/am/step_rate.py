"""The rate at which a task attempt makes steps: about that of the last minute, up to its last report. Pure."""

from __future__ import annotations

#: Minimum seconds between two marks; the rate is that since the one before the last.
MARK_SECONDS = 30.0


class StepRate:
    """The recent rate of one task attempt.

    Args:
        at: seconds since the job was accepted.
        step: the first reported step.
    """

    __slots__ = ("_newer", "_older")

    def __init__(self, at: float, step: float) -> None:
        self._older = self._newer = at, step

    def restart(self, at: float, step: float) -> None:
        """Forget all reports before this one: it follows a stall."""
        self._older = self._newer = at, step

    def add_report(self, at: float, step: float) -> float | None:
        """Take a report; return the steps per second, None if not known."""
        if at - self._newer[0] >= MARK_SECONDS:
            self._older, self._newer = self._newer, (at, step)
        since, first = self._older
        return (step - first) / (at - since) if at > since and step > first else None
