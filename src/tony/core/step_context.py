"""What a step gets and gives while one event is handled: the state, the time, and the actions it requests."""

from __future__ import annotations

from tony.core.actions import Action
from tony.core.state import State


class StepContext:
    """State and time of one event, and the actions requested so far.

    Attributes:
        state: the job; steps change it.
        now: seconds since the job was accepted.
        actions: the actions requested so far, in order.
    """

    __slots__ = ("actions", "now", "state")

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self.actions: list[Action] = []

    def request(self, action: Action) -> None:
        """Request an action, after all that were requested before."""
        self.actions.append(action)
