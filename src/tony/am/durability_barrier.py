"""What must not be seen before its cause is in safety waits here, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tony.core.actions import Action
from tony.dataclass import dataclass
from tony.schedulers.interface import Journal


@dataclass(slots=True)
class _Held:
    """What waits for the first `size` bytes of the log."""

    size: int
    actions: Sequence[Action]
    told: Callable[[], None]


class DurabilityBarrier:
    """Between the machine's actions and the world.

    What does not show passes, unless an action waits before it: actions keep their order. Acknowledgements wait for
    themselves alone; nobody is in a hurry for them, and what follows from a report must not wait until one is. And they
    wait until the log really is in safety: a job goes on where a journal cannot tell for long, but who forgets a report
    must know that it is kept.

    Args:
        perform: does actions, and then what goes with them.
    """

    def __init__(self, perform: Callable[[Sequence[Action], Callable[[], None]], None]) -> None:
        self._perform = perform
        self._journal: Journal | None = None
        self._safe = 0
        self._held: deque[_Held] = deque()
        self._acting = 0  # of these, how many have actions
        self._untold: deque[_Held] = deque()  # their actions were done without waiting any longer

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
        if size <= self._safe or not (urgent or news or self._acting):
            self._perform(actions, told)
        elif urgent or self._acting:
            self._hold(size, actions, told)
        else:
            self._hold(size, (), told)
            self._perform(actions, _nobody)

    def safe(self, size: int) -> None:
        """So many bytes are in safety."""
        self._safe = max(self._safe, size)
        is_waived = self._journal is not None and self._journal.is_waived
        while not is_waived and self._untold and self._untold[0].size <= size:
            self._untold.popleft().told()
        while self._held and self._held[0].size <= self._safe:
            held = self._held.popleft()
            self._acting -= bool(held.actions)
            if is_waived:
                self._untold.append(held)
            self._perform(held.actions, _nobody if is_waived else held.told)
        for held in list(self._held) if self._acting else ():
            if any(action.shows for action in held.actions):
                break
            if held.actions:  # they have waited for those before them only
                actions, held.actions = held.actions, ()
                self._acting -= 1
                self._perform(actions, _nobody)

    def _hold(self, size: int, actions: Sequence[Action], told: Callable[[], None]) -> None:
        self._held.append(_Held(size, actions, told))
        self._acting += bool(actions)


def _nobody() -> None:
    """Nobody has to be told."""
