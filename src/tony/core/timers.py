"""Deadlines with their times, in the order in which they are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from tony.core.deadline import Deadline, DeadlineKind
from tony.model.ids import TaskId

#: Cancelled deadlines kept in the heap, beyond twice the number that is set.
_MAX_CANCELLED = 100
#: A deadline and its time.
Wake = tuple[float, Deadline]


class Timers:
    """Deadlines with their times. Setting, cancelling and reading the next are O(log n), amortised.

    Of several deadlines at the same time the one that was set first comes first.
    """

    __slots__ = ("_count", "_due", "_heap")

    def __init__(self) -> None:
        # Entries are [time, number, wake]; the wake of one that was moved or cancelled is None.
        self._due: dict[tuple[DeadlineKind, TaskId | str | None], list[Any]] = {}
        self._heap: list[list[Any]] = []
        self._count = 0

    def set(self, deadline: Deadline, at: float) -> None:
        """Set or move a deadline."""
        known = self._due.get(deadline)
        if known is not None:
            if known[0] == at:
                return
            known[2] = None
        self._count += 1
        self._due[deadline] = entry = [at, self._count, (at, deadline)]
        heapq.heappush(self._heap, entry)
        if len(self._heap) > _MAX_CANCELLED + 2 * len(self._due):  # bound the memory of a long job
            self._heap = list(self._due.values())
            heapq.heapify(self._heap)

    def cancel(self, deadline: Deadline) -> None:
        """Remove a deadline, if it is set."""
        known = self._due.pop(deadline, None)
        if known is not None:
            known[2] = None

    def cancel_all(self, kinds: Iterable[DeadlineKind], task: TaskId) -> None:
        """Remove deadlines of some kinds of one task. A plain tuple equals a `Deadline` and is made faster."""
        for kind in kinds:
            known = self._due.pop((kind, task), None)
            if known is not None:
                known[2] = None

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def pop_due(self, deadline: Deadline, now: float) -> bool:
        """Remove a deadline that has passed and return True; return False if it is not set or not due."""
        known = self._due.get(deadline)
        if known is None or known[0] > now:
            return False
        self.cancel(deadline)
        return True

    def find_next(self) -> Wake | None:
        """Return the earliest deadline, or None. The same object until another one is the earliest."""
        heap = self._heap
        while heap:
            wake: Wake | None = heap[0][2]
            if wake is not None:
                return wake
            heapq.heappop(heap)
        return None

    def get(self, deadline: Deadline) -> float | None:
        """Return the time of a deadline; None if it is not set."""
        known = self._due.get(deadline)
        return known[0] if known else None

    def __contains__(self, deadline: Deadline) -> bool:
        return deadline in self._due

    @property
    def all(self) -> Mapping[Deadline, float]:
        """Every deadline that is set."""
        return {entry[2][1]: entry[0] for entry in self._due.values()}
