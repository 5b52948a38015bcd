"""The vocabulary of faults: who is struck, with what, when, for how long."""

from __future__ import annotations

from enum import Enum

from tony.dataclass import dataclass
from tony.model.ids import TaskId
from tony.model.states import JobState


class ProcessKind(Enum):
    """Which process. The last three belong to the job as a whole."""

    PROGRAM = "program"
    EXECUTOR = "executor"
    WATCHDOG = "watchdog"
    MASTER = "master"
    SUPERVISOR = "supervisor"
    FORK_SERVER = "fork server"


#: Processes of which every task has its own.
OF_TASKS = frozenset({ProcessKind.PROGRAM, ProcessKind.EXECUTOR, ProcessKind.WATCHDOG})


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTarget:
    """Who is struck.

    Attributes:
        task: whose process; None for the job's own, and where one is drawn by lot.
        any_of: one of the living tasks of this role is drawn; empty: of all roles; None: nothing is drawn.
    """

    part: ProcessKind
    task: TaskId | None = None
    any_of: str | None = None


# --- what goes wrong ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL: it is gone, and has said nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGSTOP: it stands still, and goes on when the strike is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """It runs only a part of the time.

    Attributes:
        share: of the time, between 0 and 1.
    """

    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Nothing passes between an executor and its application master, and nobody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """There is no room for what it writes into files."""


class Traffic(Enum):
    """Which messages between an executor and its application master."""

    MESSAGES = "messages"  #: all that the executor sends
    HEARTBEATS = "heartbeats"
    REPORTS = "reports"  #: what it must not lose: it is ready, its program started, printed, ended
    COMMANDS = "commands"  #: all that it is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Messages are lost. A connection from which anything but a heartbeat is lost breaks: no stream goes on then."""

    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Messages come later, in their order."""

    seconds: float
    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """Messages come twice."""

    share: float = 1.0
    traffic: Traffic = Traffic.MESSAGES


Harm = Kill | Stop | Slow | Partition | FillDisk | Drop | Delay | Duplicate
#: What happens on the way between an executor and its application master.
ON_THE_WAY = (Partition, Drop, Delay, Duplicate)


# --- when ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStart:
    """As soon as there is anybody to strike. What is on the way is struck for every executor of the task, one that
    comes in another's place included; at any other moment for the one that lives then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterTime:
    """So many seconds after the job was accepted."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEvent:
    """The event of that number is in the log."""

    seq: int


class EventStage(Enum):
    """How far the application master is with an event. Only it can know: see `faults/inside.py`."""

    UNWRITTEN = "before event {} is logged"  #: handled, and not a byte of it in the log
    TORN = "while event {} is logged"  #: a part of its line is
    LOGGED = "before the effects of event {}"  #: it is, and nobody has seen an effect of it
    HALF_DONE = "amid the effects of event {}"  #: some of its effects have been seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """The application master is in the midst of an event."""

    seq: int
    stage: EventStage


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpens:
    """That session begins."""

    session: int


class TaskMilestone(Enum):
    """What a task can do."""

    REGISTERED = "registered"
    STARTED = "started"
    PRINTED = "printed"
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDid:
    """A task has done something.

    Attributes:
        session: in that session; None: for the first time.
    """

    task: TaskId
    step: TaskMilestone
    session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIs:
    """The job is in a state, for the first time."""

    state: JobState


Moment = AtStart | AfterTime | AfterEvent | Within | SessionOpens | TaskDid | JobIs


# --- all of it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault: what, to whom, when.

    Attributes:
        later: seconds from the moment to the strike.
        lasts: seconds after which it is undone; None: never.
    """

    harm: Harm
    target: FaultTarget
    moment: Moment = AtStart()
    later: float = 0.0
    lasts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """All that goes wrong in one job. Each strike strikes once.

    Attributes:
        seed: of everything that is left to chance.
    """

    strikes: tuple[Strike, ...] = ()
    seed: int = 0
