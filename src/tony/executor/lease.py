"""How long an executor goes on without its application master, and how often it looks for it. No clock of its own."""

from __future__ import annotations

import os

_FIRST, _MOST = 0.05, 2.0


class Lease:
    """The right to go on, renewed by every contact.

    An executor cannot tell a dead application master from a network that is cut. If something says that nobody is
    there, it goes on for `length` seconds after the last contact; if nothing says so, for `patience`, if that is more.
    """

    def __init__(self, length: float, patience: float, now: float) -> None:
        self._length = length
        self._patience = max(length, patience)
        self._contact = now

    def renew(self, now: float) -> None:
        """The application master was heard of."""
        self._contact = max(self._contact, now)

    def left(self, now: float, *, gone: bool) -> float:
        """Seconds that are left; 0 when it is over.

        Args:
            gone: whether something says that no application master is there.
        """
        return max(0.0, self._contact + (self._length if gone else self._patience) - now)


class Backoff:
    """Waiting times between tries to connect: the first at once, then 0.05 s doubling up to 2 s, with jitter."""

    def __init__(self) -> None:
        self._next = 0.0

    def reset(self) -> None:
        """It has worked: the next try is the first again."""
        self._next = 0.0

    def delay(self) -> float:
        """Seconds to wait before the next try: between half and all of the doubling time."""
        delay = self._next * (0.5 + os.urandom(1)[0] / 510)
        self._next = min(max(2 * self._next, _FIRST), _MOST)
        return delay
