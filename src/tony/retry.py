"""Growing delays between attempts. The caller sleeps, so that blocking and asynchronous code use the same values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays in seconds that grow up to a maximum; each iteration starts with the first one again.

    Attributes:
        jitter: fraction of each delay that is random: with 0.5 it is half to all of its length.
    """

    first: float
    most: float
    factor: float = 2.0
    jitter: float = 0.0

    def __iter__(self) -> Iterator[float]:
        """Yield delays without end."""
        delay = self.first
        while True:
            delay = min(delay, self.most)
            yield delay * (1 - self.jitter * os.urandom(1)[0] / 255) if self.jitter else delay
            delay *= self.factor
