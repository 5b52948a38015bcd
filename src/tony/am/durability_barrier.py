"""Delays visible actions until the log entries that caused them are durable, and keeps them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tony.core.actions import Action
from tony.schedulers.allocator_interface import Journal


@dataclass(slots=True)
class _DelayedActions:
    """Actions that wait until the first `size` bytes of the log are durable."""

    size: int
    actions: Sequence[Action]
    acknowledge: Callable[[], None]


class DurabilityBarrier:
    """Delays the state machine's actions until their causes are durable.

    Actions that are not visible outside pass, unless another one waits before them: actions keep their order.
    Acknowledgements wait on their own: they are not urgent, and actions must not wait for them. They wait even while
    the journal is waived because it cannot be reached for long: a sender that discards a report must know that it is
    durable.

    Args:
        perform: performs actions, and then calls the acknowledgement.
        journal: makes the log durable; None if it counts as durable at once.
    """

    def __init__(
        self, perform: Callable[[Sequence[Action], Callable[[], None]], None], journal: Journal | None
    ) -> None:
        self._perform = perform
        self._journal = journal
        self._durable = 0
        self._held: deque[_DelayedActions] = deque()
        self._waiting_actions = 0  # how many of them have actions
        self._unacknowledged: deque[_DelayedActions] = deque()  # performed, but not durable

    def submit(
        self, size: int, actions: Sequence[Action], acknowledge: Callable[[], None], *, has_reports: bool
    ) -> None:
        """Perform actions once the first `size` bytes of the log, which hold their causes, are durable.

        Args:
            acknowledge: acknowledges the reports among these causes.
            has_reports: whether there are such reports.
        """
        if self._journal is None:
            self._perform(actions, acknowledge)
            return
        urgent = any(action.shows for action in actions)
        self._journal.note_written(size, urgent=urgent)
        if size <= self._durable or not (urgent or has_reports or self._waiting_actions):
            self._perform(actions, acknowledge)
        elif urgent or self._waiting_actions:
            self._hold(size, actions, acknowledge)
        else:
            self._hold(size, (), acknowledge)
            self._perform(actions, _skip_acknowledgement)

    def on_durable(self, size: int) -> None:
        """Handle that the first `size` bytes of the log are durable."""
        self._durable = max(self._durable, size)
        is_waived = self._journal is not None and self._journal.is_waived
        while not is_waived and self._unacknowledged and self._unacknowledged[0].size <= size:
            self._unacknowledged.popleft().acknowledge()
        while self._held and self._held[0].size <= self._durable:
            held = self._held.popleft()
            self._waiting_actions -= bool(held.actions)
            if is_waived:
                self._unacknowledged.append(held)
            self._perform(held.actions, _skip_acknowledgement if is_waived else held.acknowledge)
        for held in list(self._held) if self._waiting_actions else ():
            if any(action.shows for action in held.actions):
                break
            if held.actions:  # they only waited for those before them
                actions, held.actions = held.actions, ()
                self._waiting_actions -= 1
                self._perform(actions, _skip_acknowledgement)

    def _hold(self, size: int, actions: Sequence[Action], acknowledge: Callable[[], None]) -> None:
        self._held.append(_DelayedActions(size, actions, acknowledge))
        self._waiting_actions += bool(actions)


def _skip_acknowledgement() -> None:
    """Do nothing: no report caused the actions."""
