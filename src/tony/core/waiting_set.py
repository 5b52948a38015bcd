"""Who waits, lowest number first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class IndexHeap:
    """A set of numbers that gives its lowest first. Joining, leaving and taking are O(log n), amortised."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._heap: list[int] = []

    def join(self, number: int) -> None:
        """Adds a number; one that is there already stays where it is."""
        if number not in self._members:
            self._members.add(number)
            heapq.heappush(self._heap, number)

    def leave(self, number: int) -> None:
        """Takes a number out; unknown ones are fine."""
        self._members.discard(number)
        if not self._members:
            self._heap.clear()

    def take(self) -> int | None:
        """Takes the lowest number out and answers it; None if nobody is there."""
        while self._heap:
            number = heapq.heappop(self._heap)
            if number in self._members:
                self.leave(number)
                return number
        return None

    def clear(self) -> None:
        """Sends everybody away."""
        self._members.clear()
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._members))
