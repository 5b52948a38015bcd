"""The deadlines of a job: what each one limits, of which task, role or host; and when they are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from tony.model.ids import TaskId


class DeadlineKind(Enum):
    """Subject that a deadline limits."""

    REGISTRATION = "registration"  #: of a task: its executor registers
    STARTUP = "startup"  #: of a task: its program prints a line
    EXECUTION = "execution"  #: of a task: its program ends
    REPORT = "report"  #: of a task: its exit is reported after its container has ended
    STOP_CAUSE = "stop-cause"  #: of a task: the end of its container gives the cause of an external stop
    TASK_RESTART = "task-restart"  #: of a task: the back-off before it restarts alone
    LEASE = "lease"  #: of a task: its executor must have stopped the program
    EXCLUSION = "exclusion"  #: of a host: it gets no container
    GROUP = "group"  #: of a role: `timeout_after`
    ALLOCATION = "allocation"  #: all containers are granted
    JOB = "job"  #: the job ends
    GANG_PATIENCE = "gang-patience"  #: a further container is granted
    GANG_PAUSE = "gang-pause"  #: the gang requests no containers
    GANG_WAIT = "gang-wait"  #: all containers of an elastic gang are granted, in the first session
    SHRINK_AFTER = "shrink-after"  #: the same in every later session
    GANG_SOON = "gang-soon"  #: a short wait for more containers when there are enough
    RESTART = "restart"  #: the back-off before the next session
    ROOT_CAUSE = "root-cause"  #: a task fails for a reason of its own, after others did because of it
    STOP_LIMIT = "stop-limit"  #: programs that were stopped have ended
    FORCE_LIMIT = "force-limit"  #: containers that were killed have ended

    __hash__ = object.__hash__  # that of Enum is a Python function

    @property
    def setting(self) -> str:
        """The setting with the same name as the deadline."""
        return self.value.replace("-", "_")


#: Deadlines of one task.
TASK_DEADLINES = frozenset(
    {
        DeadlineKind.REGISTRATION,
        DeadlineKind.STARTUP,
        DeadlineKind.EXECUTION,
        DeadlineKind.REPORT,
        DeadlineKind.STOP_CAUSE,
        DeadlineKind.TASK_RESTART,
        DeadlineKind.LEASE,
    }
)
#: Deadlines that end with the session.
SESSION_DEADLINES = frozenset(
    {
        DeadlineKind.REGISTRATION,
        DeadlineKind.STARTUP,
        DeadlineKind.EXECUTION,
        DeadlineKind.TASK_RESTART,
        DeadlineKind.GROUP,
        DeadlineKind.ALLOCATION,
        DeadlineKind.GANG_PATIENCE,
        DeadlineKind.GANG_PAUSE,
        DeadlineKind.GANG_WAIT,
        DeadlineKind.SHRINK_AFTER,
        DeadlineKind.GANG_SOON,
        DeadlineKind.ROOT_CAUSE,
    }
)
#: Deadlines for reports of executors: after a recovery these need time to reconnect.
EXECUTOR_DEADLINES = frozenset(
    {
        DeadlineKind.REGISTRATION,
        DeadlineKind.STARTUP,
        DeadlineKind.REPORT,
        DeadlineKind.STOP_LIMIT,
        DeadlineKind.FORCE_LIMIT,
    }
)


class Deadline(NamedTuple):
    """One deadline, written `execution:worker:0`.

    Attributes:
        subject: the task, the name of the role or the host; None if it is the job's.
    """

    kind: DeadlineKind
    subject: TaskId | str | None = None

    def __str__(self) -> str:
        return self.kind.value if self.subject is None else f"{self.kind.value}:{self.subject}"

    @classmethod
    def parse(cls, text: str) -> Deadline:
        """Parse a deadline as it is in the event log.

        Raises:
            ValueError: the text is no deadline.
        """
        word, colon, name = text.partition(":")
        kind = DeadlineKind(word)
        if kind in TASK_DEADLINES:
            return cls(kind, TaskId.parse(name))
        return cls(kind, name if colon else None)


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
