"""When the output of a program arrived: of each recent offset in a stream, in bounded memory."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from operator import itemgetter

#: Arrivals that are remembered, and seconds within which output counts as arrived at once.
_MAX_ARRIVALS = 256
_SAME_ARRIVAL_SECONDS = 0.05


class ArrivalTimes:
    """The arrivals of one stream. Times are of `tony.clock.monotonic`."""

    def __init__(self) -> None:
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_MAX_ARRIVALS)

    def note_arrival(self, at: float, end: int) -> None:
        """Note that the output up to an offset has arrived."""
        since = self._arrivals[-1][0] if self._arrivals else -math.inf
        if at - since < _SAME_ARRIVAL_SECONDS:
            self._arrivals[-1] = since, end
        else:
            self._arrivals.append((at, end))

    def find_arrival(self, offset: int) -> float | None:
        """Return when the output at an offset arrived; None if it has not, a later time if that is forgotten."""
        place = bisect_right(self._arrivals, offset, key=itemgetter(1))
        return self._arrivals[place][0] if place < len(self._arrivals) else None
