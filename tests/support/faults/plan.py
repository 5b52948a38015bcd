"""The model of a fault plan: target, fault, time and duration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.model.ids import TaskId
from tony.model.states import JobState


class ProcessKind(Enum):
    """A kind of process. The last three belong to the job as a whole."""

    PROGRAM = "program"
    EXECUTOR = "executor"
    WATCHDOG = "watchdog"
    MASTER = "master"
    SUPERVISOR = "supervisor"
    FORK_SERVER = "fork server"


#: Kinds of processes that each task has.
OF_TASKS = frozenset({ProcessKind.PROGRAM, ProcessKind.EXECUTOR, ProcessKind.WATCHDOG})


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """The process to inject a fault into.

    Attributes:
        task: of the process; None for a process of the job, and if a random task is drawn.
        any_of: draw a random running task of this role; empty: of all roles; None: draw none.
    """

    part: ProcessKind
    task: TaskId | None = None
    any_of: str | None = None


# --- what goes wrong ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill the process by SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Suspend the process by SIGSTOP until the fault is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Let the process run only for a part of the time.

    Attributes:
        share: of the time, between 0 and 1.
    """

    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Silently drop all traffic between an executor and its AM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """Fail all writes of the process into files, as on a full disk."""


class Traffic(Enum):
    """A kind of messages between an executor and its AM."""

    MESSAGES = "messages"  #: all messages that the executor sends
    HEARTBEATS = "heartbeats"
    REPORTS = "reports"  #: messages that must not be lost: ready; program started, printed, exited
    COMMANDS = "commands"  #: all messages to the executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Lose messages. Losing any but a heartbeat breaks the connection, as the stream cannot continue."""

    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Delay messages, in order."""

    seconds: float
    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """Deliver messages twice."""

    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


Harm = Kill | Stop | Slow | Partition | FillDisk | Drop | Delay | Duplicate
#: Faults of the connection between an executor and its AM.
ON_THE_WAY = (Partition, Drop, Delay, Duplicate)


# --- when ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStart:
    """As soon as the target runs. Connection faults then apply to every executor of the task, replacements included; at
    any other moment, to the current one only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterTime:
    """A number of seconds after the job was accepted."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEvent:
    """After the event of that number is in the log."""

    seq: int


class EventStage(Enum):
    """How far the AM has handled an event; only the AM itself knows (`faults/crash_points.py`)."""

    UNWRITTEN = "before event {} is logged"  #: handled, but no byte of it is in the log
    TORN = "while event {} is logged"  #: a part of its line is in the log
    LOGGED = "before the effects of event {}"  #: in the log, with no visible effects
    HALF_DONE = "amid the effects of event {}"  #: some of its effects are visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """While the AM handles an event."""

    seq: int
    stage: EventStage


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpens:
    """When that session opens."""

    session: int


class TaskMilestone(Enum):
    """A milestone of a task."""

    REGISTERED = "registered"
    STARTED = "started"
    PRINTED = "printed"
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDid:
    """When a task reaches a milestone.

    Attributes:
        session: in that session; None: in any session, the first time.
    """

    task: TaskId
    step: TaskMilestone
    session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIs:
    """When the job enters a state for the first time."""

    state: JobState


Moment = AtStart | AfterTime | AfterEvent | Within | SessionOpens | TaskDid | JobIs


# --- all of it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """One fault of a plan, with its target and time.

    Attributes:
        later: seconds from the moment to the injection.
        lasts: seconds after which the fault is undone; None: never.
    """

    harm: Harm
    target: FaultTarget
    moment: Moment = AtStart()
    later: float = 0.0
    lasts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """All faults of one job. Each is injected once.

    Attributes:
        seed: of all random choices.
    """

    faults: tuple[PlannedFault, ...] = ()
    seed: int = 0
