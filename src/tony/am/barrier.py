"""What must not be seen before its cause is in safety waits here, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tony.core.actions import Action
from tony.schedulers.base import Journal


class Barrier:
    """Between the machine's actions and the world.

    What does not show passes, unless something waits before it: actions keep their order.

    Args:
        perform: does actions, and then what goes with them.
    """

    def __init__(self, perform: Callable[[Sequence[Action], Callable[[], None]], None]) -> None:
        self._perform = perform
        self._journal: Journal | None = None
        self._safe = 0
        self._held: deque[tuple[int, Sequence[Action], Callable[[], None]]] = deque()

    def keep_to(self, journal: Journal | None) -> None:
        """From now on a log is in safety only where a journal says so; without one at once."""
        self._journal = journal

    def pass_on(self, size: int, actions: Sequence[Action], told: Callable[[], None], *, news: bool) -> None:
        """Actions whose causes are in the first `size` bytes of the log.

        Args:
            told: acknowledges the reports that are among these causes.
            news: there are such.
        """
        if self._journal is None:
            self._perform(actions, told)
            return
        urgent = any(action.shows for action in actions)
        self._journal.wrote(size, urgent=urgent)
        if (urgent or news or self._held) and size > self._safe:
            self._held.append((size, actions, told))
        else:
            self._perform(actions, told)

    def safe(self, size: int) -> None:
        """So many bytes are in safety."""
        self._safe = max(self._safe, size)
        while self._held and self._held[0][0] <= self._safe:
            _, actions, told = self._held.popleft()
            self._perform(actions, told)
