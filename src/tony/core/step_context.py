"""One event being handled."""

from __future__ import annotations

from tony.core.actions import Action
from tony.core.state import State


class StepContext:
    """What every step of handling one event works on.

    Attributes:
        state: the job; steps change it.
        now: seconds since the job was accepted.
        actions: what has been asked for so far, in order.
    """

    __slots__ = ("actions", "now", "state")

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self.actions: list[Action] = []

    def ask(self, action: Action) -> None:
        """Asks the shells for something, after all that was asked for before."""
        self.actions.append(action)
