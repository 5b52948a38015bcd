"""Delays visible actions until the log entries that caused them are durable, and keeps them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tony.core.actions import Action
from tony.schedulers.allocator_interface import Journal


class DurabilityBarrier:
    """Delays the state machine's actions until their causes are durable.

    Actions that are not visible outside pass, unless another one waits before them: actions keep their order.
    Acknowledgements wait on their own: they are not urgent, and actions must not wait for them. They wait even while
    the journal is waived because it cannot be reached for long: a sender that discards a report must know that it is
    durable.

    Args:
        perform: performs actions.
        journal: makes the log durable; None if it counts as durable at once.
    """

    def __init__(self, perform: Callable[[Sequence[Action]], None], journal: Journal | None) -> None:
        self._perform = perform
        self._journal = journal
        self._durable = 0
        # Each with the size of the log that must be durable before.
        self._actions: deque[tuple[int, Sequence[Action]]] = deque()
        self._acknowledgements: deque[tuple[int, Callable[[], None]]] = deque()

    def submit(self, size: int, actions: Sequence[Action], acknowledge: Callable[[], None] | None = None) -> None:
        """Perform actions once the first `size` bytes of the log, which hold their causes, are durable.

        Args:
            acknowledge: acknowledges the reports among these causes; None if there are none.
        """
        if self._journal is None:
            if acknowledge:
                acknowledge()
            self._perform(actions)
            return
        if acknowledge:
            self._acknowledgements.append((size, acknowledge))
        if actions:
            self._actions.append((size, actions))
        self._journal.note_written(size, urgent=any(action.shows for action in actions))
        self._release()

    def on_durable(self, size: int) -> None:
        """Handle that the first `size` bytes of the log are durable, or no longer waited for."""
        self._durable = max(self._durable, size)
        is_waived = self._journal is not None and self._journal.is_waived
        while not is_waived and self._acknowledgements and self._acknowledgements[0][0] <= size:
            self._acknowledgements.popleft()[1]()
        self._release()

    async def watch(self) -> None:
        """Wait until a later AM attempt has taken over the log; return at once where none can.

        Raises:
            AttemptSupersededError: it has: no further action will be performed.
        """
        if self._journal:
            await self._journal.watch()

    def _release(self) -> None:
        while self._actions:
            size, actions = self._actions[0]
            if size > self._durable and any(action.shows for action in actions):
                return
            self._actions.popleft()
            self._perform(actions)
