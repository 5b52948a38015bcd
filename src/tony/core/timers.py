"""Named deadlines, as values: nothing here sleeps."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

#: Cancelled deadlines kept in the heap, beyond twice the number that is set.
_MAX_CANCELLED = 100


class Timers:
    """A set of names, each with a time. Setting, cancelling and reading the next are O(log n), amortised."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, at: float) -> None:
        """Set or move a deadline."""
        if self._due.get(name) != at:
            self._due[name] = at
            heapq.heappush(self._heap, (at, name))
            if len(self._heap) > _MAX_CANCELLED + 2 * len(self._due):  # bound the memory of a long job
                self._heap = [(at, name) for name, at in self._due.items()]
                heapq.heapify(self._heap)

    def cancel(self, name: str) -> None:
        """Remove a deadline, if it is set."""
        self._due.pop(name, None)

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def pop_due(self, name: str, now: float) -> bool:
        """Remove a deadline that has passed and return True; return False if it is not set or not due."""
        due = self._due.get(name)
        if due is None or due > now:
            return False
        del self._due[name]
        return True

    def next(self) -> tuple[float, str] | None:
        """Return the earliest deadline, or None."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def __contains__(self, name: str) -> bool:
        return name in self._due

    @property
    def all(self) -> Mapping[str, float]:
        """Every deadline that is set."""
        return self._due
