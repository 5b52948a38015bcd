"""Actions that the state machine requests. Performing one twice is harmless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from tony.core.deadline import Deadline
from tony.core.events import FailureResponse
from tony.core.reasons import RestartReason, StopReason
from tony.model.failure import Failure
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec
from tony.model.states import JobState
from tony.model.value_class import value_class


@value_class
class RequestedAction:
    """The base class of the members of `Action`.

    Attributes:
        shows: True if the effect is visible outside: the log must be durable before it is performed.
    """

    kind: ClassVar[str] = ""
    shows: ClassVar[bool] = False


@value_class
class Reconcile(RequestedAction):
    """Ask the scheduler which containers of earlier AM attempts remain; feed ContainersFound, then ReconcileClosed."""

    kind: ClassVar[str] = "reconcile"


@value_class
class SetDemand(RequestedAction):
    """Have `total` containers of a role, including those already granted."""

    kind: ClassVar[str] = "set-demand"
    role: str
    total: int


@value_class
class SetMemory(RequestedAction):
    """Request `memory` bytes for each further container of a role."""

    kind: ClassVar[str] = "set-memory"
    role: str
    memory: int


@value_class
class Launch(RequestedAction):
    """Start the executor of a task in a granted container.

    Attributes:
        memory: bytes of the container; None: as the job says.
    """

    kind: ClassVar[str] = "launch"
    shows: ClassVar[bool] = True
    container: str
    task: TaskId
    session: int
    memory: int | None = None


@value_class
class Renew(RequestedAction):
    """Tell a surviving executor that a new session opens: it reserves ports again and registers for it."""

    kind: ClassVar[str] = "renew"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int


@value_class
class Publish(RequestedAction):
    """Announce the cluster spec of a session, or a later version of it. Comes before the Starts that use it.

    Feed `GangSizeSet` back if it contains roles that may run with fewer tasks than requested.
    """

    kind: ClassVar[str] = "publish"
    shows: ClassVar[bool] = True
    spec: ClusterSpec


@value_class
class Start(RequestedAction):
    """Start the user program of a task, under spec version `version` (0: without a cluster spec).

    Attributes:
        variables: environment variables exported by programs of other roles (`exports`).
    """

    kind: ClassVar[str] = "start"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int
    try_: int
    version: int
    variables: Mapping[str, str] = field(default_factory=dict)


@value_class
class Stop(RequestedAction):
    """Stop a task's program: SIGTERM, `grace` seconds, SIGKILL. Its executor stays.

    Attributes:
        reason: None if an earlier request is repeated.
        try_: the task attempt to stop, or never to start; 0 as in `StopProgram`.
    """

    kind: ClassVar[str] = "stop"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int
    grace: float
    reason: StopReason | None = None
    try_: int = 0


@value_class
class Release(RequestedAction):
    """Release a container; its executor stops its program and exits."""

    kind: ClassVar[str] = "release"
    shows: ClassVar[bool] = True
    container: str


@value_class
class Kill(RequestedAction):
    """Kill a container at once, whatever runs in it: it is silent, or did not stop in time."""

    kind: ClassVar[str] = "kill"
    shows: ClassVar[bool] = True
    container: str
    reason: str


@value_class
class OpenSession(RequestedAction):
    """Feed `SessionOpened` back: it is logged before the first effect of the session.

    Attributes:
        reason: None for the first session.
    """

    kind: ClassVar[str] = "open-session"
    session: int
    reason: RestartReason | None = None


@value_class
class ReportFailure(RequestedAction):
    """A failure was classified: for the event log and for subscribers.

    Attributes:
        reason: why that was decided, one sentence.
        memory: as in `FailureClassified`.
    """

    kind: ClassVar[str] = "verdict"
    failure: Failure
    decision: FailureResponse
    reason: str
    memory: int | None = None


@value_class
class Exclude(RequestedAction):
    """Request no further containers on a host, for now."""

    kind: ClassVar[str] = "exclude"
    host: str


@value_class
class Include(RequestedAction):
    """Lift the exclusion of a host."""

    kind: ClassVar[str] = "include"
    host: str


@value_class
class StartRequestedProgram(RequestedAction):
    """Have an executor start the program of a `RemoteProgramRequested`; nothing, if the client has gone.

    Attributes:
        number: of the event.
    """

    kind: ClassVar[str] = "start-remote-program"
    shows: ClassVar[bool] = True
    number: int


@value_class
class WakeAt(RequestedAction):
    """Feed `DeadlinePassed` at time `at` (or later). Replaces every earlier WakeAt."""

    kind: ClassVar[str] = "wake-at"
    at: float
    deadline: Deadline


@value_class
class Finish(RequestedAction):
    """The job has ended: write the summary, notify subscribers, exit."""

    kind: ClassVar[str] = "finish"
    shows: ClassVar[bool] = True
    state: JobState
    exit_code: int
    failure: Failure | None


Action = (
    Reconcile
    | SetDemand
    | SetMemory
    | Launch
    | Renew
    | Publish
    | Start
    | Stop
    | Release
    | Kill
    | OpenSession
    | ReportFailure
    | Exclude
    | Include
    | StartRequestedProgram
    | WakeAt
    | Finish
)
