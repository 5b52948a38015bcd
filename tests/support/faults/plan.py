"""The model of an injected fault: `PlannedFault(Kill(), program("worker:1"), AfterEvent(17))`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.model.ids import TaskId
from tony.model.states import JobState


class ProcessKind(Enum):
    """A kind of process."""

    PROGRAM = "program"
    EXECUTOR = "executor"
    WATCHDOG = "watchdog"
    MASTER = "master"


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The process to inject a fault into.

    Attributes:
        task: of the process; None for the AM.
    """

    kind: ProcessKind
    task: TaskId | None = None

    def __str__(self) -> str:
        return f"{self.kind.value} {self.task}" if self.task else self.kind.value


MASTER = FaultTarget(ProcessKind.MASTER)


def program(task: str) -> FaultTarget:
    """Return the user process of a task."""
    return FaultTarget(ProcessKind.PROGRAM, TaskId.parse(task))


def executor(task: str) -> FaultTarget:
    """Return the executor of a task."""
    return FaultTarget(ProcessKind.EXECUTOR, TaskId.parse(task))


# --- what goes wrong ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process by SIGKILL."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Suspend the process by SIGSTOP until the fault is undone."""


@dataclass(frozen=True, slots=True)
class FillDisk:
    """Fail all writes of the process into files, as on a full disk."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Silently drop all traffic between an executor and its AM."""


class Traffic(Enum):
    """A kind of messages between an executor and its AM."""

    MESSAGES = "messages"  #: all messages that the executor sends
    HEARTBEATS = "heartbeats"
    REPORTS = "reports"  #: messages that must not be lost: ready; program started, printed, exited
    READY = "ready"
    EXITS = "exits"
    COMMANDS = "commands"  #: all messages to the executor


@dataclass(frozen=True, slots=True)
class Drop:
    """Lose messages. Losing any but a heartbeat breaks the connection, as the stream cannot continue."""

    traffic: Traffic
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay messages, in order."""

    traffic: Traffic
    seconds: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Deliver messages twice."""

    traffic: Traffic
    share: float = 1.0


ConnectionFault = Partition | Drop | Delay | Duplicate
Fault = Kill | Stop | FillDisk | ConnectionFault


# --- when ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtStart:
    """As soon as the target runs. Connection faults then apply to every executor of the task, replacements included; at
    any other moment, to the current one only."""


@dataclass(frozen=True, slots=True)
class AfterEvent:
    """After the event of that number is in the log."""

    seq: int


@dataclass(frozen=True, slots=True)
class SessionOpens:
    """When that session opens."""

    session: int


class TaskMilestone(Enum):
    """A milestone of a task."""

    REGISTERED = "registered"
    STARTED = "started"
    PRINTED = "printed"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class TaskReaches:
    """When a task reaches a milestone.

    Attributes:
        session: in that session; None: in any session, the first time.
    """

    task: TaskId
    milestone: TaskMilestone
    session: int | None = None


@dataclass(frozen=True, slots=True)
class JobIs:
    """When the job enters a state for the first time."""

    state: JobState


Moment = AtStart | AfterEvent | SessionOpens | TaskReaches | JobIs


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault, with its target and time. It is injected once.

    Attributes:
        later: seconds from the moment to the injection.
        lasts: seconds after which the fault is undone; None: never.
    """

    fault: Fault
    target: FaultTarget
    moment: Moment = AtStart()
    later: float = 0.0
    lasts: float | None = None
