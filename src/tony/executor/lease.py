"""How long an executor goes on without its application master, and how often it looks for it. No clock of its own."""

from __future__ import annotations

import os

#: Seconds between two tries to connect: the first wait, and the longest.
_FIRST, _MOST = 0.05, 1.0
_GROWTH = 1.5
#: Parts of the term after which it is time to have it renewed.
_RENEWALS = 10


class Lease:
    """The right to go on, renewed by each proof that the application master hears us.

    An executor cannot tell a dead application master from a network that is cut. If something says that nobody is
    there, it goes on for `length` seconds after the last proof; if nothing says so, for `patience`, if that is more.

    A lease runs from when we *sent* what the application master then answered, never from when the answer came. So it
    is over no later than the application master reckons, which counts from when it heard us. The whole argument:
    docs/am-failures.md.

    Attributes:
        term: seconds after which it is over in any case, unless it is renewed.
    """

    def __init__(self, length: float, patience: float, now: float) -> None:
        self._length = length
        self.term = max(length, patience)
        self._proof = now

    def renew(self, sent: float) -> None:
        """The application master has answered what was sent at that time."""
        self._proof = max(self._proof, sent)

    def left(self, now: float, *, gone: bool) -> float:
        """Seconds that are left; 0 when it is over.

        Args:
            gone: whether something says that no application master is there.
        """
        return max(0.0, self._proof + (self._length if gone else self.term) - now)

    def wants_renewal(self, now: float) -> bool:
        """Whether to ask the application master for an answer. Most of the time there is no need."""
        return now - self._proof >= self.pulse

    @property
    def ends(self) -> float:
        """When it is over in any case, unless it is renewed."""
        return self._proof + self.term

    @property
    def pulse(self) -> float:
        """Seconds between two answers that are asked for: while all is well, so much of the term is used up."""
        return self.term / _RENEWALS


class Backoff:
    """Waiting times between tries to connect: the first at once, then from 0.05 s up to 1 s, with jitter."""

    def __init__(self) -> None:
        self._next = 0.0

    def reset(self) -> None:
        """There is reason to hope: the next try is the first again."""
        self._next = 0.0

    def delay(self) -> float:
        """Seconds to wait before the next try: between half and all of the growing time."""
        delay = self._next * (0.5 + os.urandom(1)[0] / 510)
        self._next = min(max(_GROWTH * self._next, _FIRST), _MOST)
        return delay
