"""A set of waiting task indexes; pops the lowest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class IndexHeap:
    """A set of numbers that returns its lowest first. Adding, removing and taking are O(log n), amortised."""

    __slots__ = ("_heap", "_members")

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._heap: list[int] = []

    def join(self, number: int) -> None:
        """Add a number, unless it is there already."""
        if number not in self._members:
            self._members.add(number)
            heapq.heappush(self._heap, number)

    def leave(self, number: int) -> None:
        """Remove a number, if it is there."""
        self._members.discard(number)
        if not self._members:
            self._heap.clear()

    def take(self) -> int | None:
        """Remove and return the lowest number; None if the set is empty."""
        while self._heap:
            number = heapq.heappop(self._heap)
            if number in self._members:
                self.leave(number)
                return number
        return None

    def clear(self) -> None:
        self._members.clear()
        self._heap.clear()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._members))
