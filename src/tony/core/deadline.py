"""The deadlines of a job: what each one limits, and of which task, role or host."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

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
