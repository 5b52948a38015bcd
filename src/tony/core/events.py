"""Events of a job. Each is logged before it is handled; replaying a log gives the same state.

Heartbeats, metrics and log lines are not events: the AM keeps them and raises `Silent` or `DeadlinePassed` when
something changes. Times inside events are seconds since the job was accepted, the same clock as `now`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import ClassVar, get_args

from tony.core.deadline import Deadline
from tony.model.actor import Actor
from tony.model.failure import ClusterKill
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.program_exit import ExitStatus
from tony.model.value_class import value_class
from tony.units import format_count


@value_class
class LoggedEvent:
    """The base class of the members of `Event`. `kind` is the word in the log."""

    kind: ClassVar[str] = ""


@value_class
class AttemptStarted(LoggedEvent):
    """An AM attempt started.

    Attributes:
        wall: seconds since 1970, a label.
        settings: digest of the resolved job file, so that a replay with another file is noticed.
        gangs: the scheduler grants all containers of a gang together or none of them.
        chooses: the scheduler can keep containers off a host.
        enlists: executors start before they know their task, so a launch can be repeated.
    """

    kind: ClassVar[str] = "attempt-started"
    attempt: int
    wall: float
    settings: str
    pid: int = 0
    host: str = ""
    gangs: bool = True
    chooses: bool = False
    enlists: bool = False


@value_class
class ContainersFound(LoggedEvent):
    """Containers of an earlier AM attempt that the scheduler still knows."""

    kind: ClassVar[str] = "containers-found"
    containers: tuple[str, ...]


@value_class
class ReconcileClosed(LoggedEvent):
    """Recovery ends: containers that have not been found by now count as lost."""

    kind: ClassVar[str] = "reconcile-closed"


@value_class
class Queued(LoggedEvent):
    """The scheduler has no room yet; `reason` says for what and behind which jobs. Empty: no longer queued."""

    kind: ClassVar[str] = "queued"
    reason: str


@value_class
class Unsatisfiable(LoggedEvent):
    """The scheduler reports that it can never satisfy the request."""

    kind: ClassVar[str] = "unsatisfiable"
    role: str
    reason: str


@value_class
class Excluded(LoggedEvent):
    """From now on the scheduler allocates nothing on some hosts, because tasks failed there (`Exclude`).

    Attributes:
        hosts: all excluded hosts; empty if none is excluded now.
    """

    kind: ClassVar[str] = "excluded"
    hosts: tuple[str, ...]


@value_class
class Granted(LoggedEvent):
    """The scheduler granted a container.

    Attributes:
        memory: its bytes; None: as many as were requested.
    """

    kind: ClassVar[str] = "granted"
    container: str
    role: str
    host: str
    memory: int | None = None


@value_class
class Registered(LoggedEvent):
    """An executor is ready for a session: its ports are reserved. May be delivered again.

    Attributes:
        incarnation: nonce that the executor made at its start; binds the task to that process.
        address: "host:port" of the task's reserved port.
        tb_port: port reserved for TensorBoard, or None.
        pid: the executor's process id on its host.
        listens: where a later AM attempt can call the executor; empty if the executor connects by itself.
    """

    kind: ClassVar[str] = "registered"
    task: TaskId
    container: str
    incarnation: str
    session: int
    address: str
    tb_port: int | None = None
    pid: int = 0
    listens: str = ""


@value_class
class Started(LoggedEvent):
    """The user program started."""

    kind: ClassVar[str] = "started"
    task: TaskId
    session: int
    try_: int
    pid: int


@value_class
class FirstOutput(LoggedEvent):
    """The program printed its first line: its start-up is complete."""

    kind: ClassVar[str] = "first-output"
    task: TaskId
    session: int
    try_: int


@value_class
class Exited(LoggedEvent):
    """The user program exited. Every `Start` leads to exactly one of these, or to a `ContainerEnded`.

    Attributes:
        at: when it exited (not when that was reported).
        exports: values that it exports to other programs, by variable; None for one that it did not print.
    """

    kind: ClassVar[str] = "exited"
    task: TaskId
    session: int
    try_: int
    status: ExitStatus
    at: float
    exports: Mapping[str, str | None] = field(default_factory=dict)


class EndConfirmation(StrEnum):
    """What is certain of a container's end."""

    ENDED = "ended"  #: all processes in it have ended; a report of its executor may be on the way
    SILENT = "silent"  #: the last connection of its executor is closed as well; schedulers leave this to the AM
    #: The scheduler has given up the node: what runs in the container may keep running until its lease expires.
    UNCONFIRMED = "unconfirmed"


@value_class
class ContainerEnded(LoggedEvent):
    """The scheduler reports the end of a container.

    Attributes:
        cause: one sentence, from the scheduler or from the executor's exit status.
        blameless: it was not the job's fault (preempted, node lost, launch refused).
        kill: set if the cluster or the node killed it, so that the cause is more specific than what the executor can
            report, which only knows that it was signalled.
        contact, lease: for an unconfirmed end, filled in by the AM: when its executor was last heard (job time), and
            for how many seconds it continues without an AM.
    """

    kind: ClassVar[str] = "container-ended"
    container: str
    cause: str
    blameless: bool = False
    kill: ClusterKill | None = None
    confirmation: EndConfirmation = EndConfirmation.ENDED
    contact: float = 0.0
    lease: float = 0.0

    @property
    def is_unconfirmed(self) -> bool:
        return self.confirmation is EndConfirmation.UNCONFIRMED


@value_class
class Silent(LoggedEvent):
    """No heartbeat of a task's executor arrived within the heartbeat timeout.

    Attributes:
        container: the container of that executor.
    """

    kind: ClassVar[str] = "silent"
    task: TaskId
    incarnation: str
    silence: float
    container: str


@value_class
class Stalled(LoggedEvent):
    """The programs of a session stopped making progress.

    Attributes:
        since: when they last reported a step or printed a line.
        what: what is missing since then: `step` or `output`.
        reason: where they wait, one sentence.
        task: the task that the others seem to wait for; None if not known.
        frame: where that one waits: `recv at train.py:88`; empty if not known.
        alone: only that one has stalled; others make steps.
    """

    kind: ClassVar[str] = "stalled"
    session: int
    since: float
    what: str
    reason: str
    task: TaskId | None = None
    frame: str = ""
    alone: bool = False


@value_class
class StallEnded(LoggedEvent):
    """A program of a stalled session continued: it reported a step, printed a line, or ended."""

    kind: ClassVar[str] = "stall-ended"
    session: int


@value_class
class StragglerFound(LoggedEvent):
    """A task is slow, compared with the other tasks of its role.

    Attributes:
        reason: how slow it is and what measurements show of why, one sentence.
    """

    kind: ClassVar[str] = "straggler"
    session: int
    try_: int
    task: TaskId
    reason: str


@value_class
class StragglerEnded(LoggedEvent):
    """A slow task is as fast as the others again."""

    kind: ClassVar[str] = "straggler-ended"
    session: int
    task: TaskId


@value_class
class SessionOpened(LoggedEvent):
    """Session `session` begins: the answer to `OpenSession`, logged before any of its effects.

    Attributes:
        reason: one sentence, for readers of the log.
    """

    kind: ClassVar[str] = "session-opened"
    session: int
    reason: str


@value_class
class GangSizeSet(LoggedEvent):
    """An elastic gang was published: with how many tasks it starts. For the log only.

    Attributes:
        tasks: role -> number of participating tasks, for the roles that may have fewer than requested.
        absent: role -> indexes of the tasks that do not participate.
    """

    kind: ClassVar[str] = "gang-size"
    session: int
    tasks: Mapping[str, int]
    absent: Mapping[str, tuple[int, ...]]

    @classmethod
    def from_cluster(cls, spec: JobSpec, cluster: ClusterSpec) -> GangSizeSet | None:
        """Return the event for a published cluster spec; None if all its roles always have all of their tasks."""
        elastic = [name for name in spec.elastic_roles if name in cluster.roles]
        if not elastic:
            return None
        return cls(
            session=cluster.session,
            tasks={name: len(cluster.roles[name]) for name in elastic},
            absent={name: cluster.absent[name] for name in elastic if name in cluster.absent},
        )


class FailureResponse(StrEnum):
    """What is done about a failure."""

    TOLERATE = "tolerate"
    RETRY = "retry"  #: only its task restarts
    RESTART = "restart"  #: the gang restarts
    FAIL = "fail"  #: the job fails


@value_class
class FailureClassified(LoggedEvent):
    """A failure was classified. For the log only: it follows from the events before it.

    Attributes:
        task: the task that failed; None if it was no single task.
        failure: what happened, one sentence.
        reason: why, and whether it counts against `max_restarts`.
        memory: bytes with which each task of its role is requested from now on, if that has changed (`memory_on_oom`).
    """

    kind: ClassVar[str] = "judged"
    task: TaskId | None
    failure: str
    decision: FailureResponse
    reason: str
    memory: int | None = None


@value_class
class JobRequest(LoggedEvent, ABC):
    """The base class of requests to the running job."""

    actor: Actor

    @property
    @abstractmethod
    def what(self) -> str:
        """The request in a few words."""


@value_class
class KillRequested(JobRequest):
    """Kill the job.

    Attributes:
        now: without the stop grace.
    """

    kind: ClassVar[str] = "kill-requested"
    now: bool = False

    @property
    def what(self) -> str:
        return "kill without grace" if self.now else "kill"


@value_class
class RestartRequested(JobRequest):
    """End this session and begin the next one."""

    kind: ClassVar[str] = "restart-requested"

    @property
    def what(self) -> str:
        return "restart"


@value_class
class StacksRequested(JobRequest):
    """Dump the stack traces of a task. For the log only."""

    kind: ClassVar[str] = "stacks-requested"
    task: TaskId

    @property
    def what(self) -> str:
        return f"stacks of {self.task}"


@value_class
class RemoteProgramRequested(JobRequest):
    """Run a program in a task's container, for a client.

    Attributes:
        number: identifies the request in this AM attempt.
        program: its name without folder; empty for a shell. Nothing else of the command is recorded.
        argument_count: the number of its arguments.
    """

    kind: ClassVar[str] = "remote-program-requested"
    task: TaskId
    number: int
    program: str = ""
    argument_count: int = 0

    @property
    def what(self) -> str:
        if not self.program:
            return f"a shell in {self.task}"
        return f"{self.program} with {format_count(self.argument_count, 'argument')} in {self.task}"


@value_class
class LogLevelRequested(JobRequest):
    """Change the level of tony's own logs. For the log only."""

    kind: ClassVar[str] = "log-level-requested"
    level: str

    @property
    def what(self) -> str:
        return f"log level {self.level}"


@value_class
class DeadlinePassed(LoggedEvent):
    """The time of a `WakeAt` has been reached."""

    kind: ClassVar[str] = "deadline"
    deadline: Deadline


@value_class
class ActionFailed(LoggedEvent):
    """An action could not be performed.

    Attributes:
        action: the action's kind; container or task say on what.
    """

    kind: ClassVar[str] = "action-failed"
    action: str
    cause: str
    container: str | None = None
    task: TaskId | None = None


@value_class
class Snapshot(LoggedEvent):
    """A digest of the state before this event: a replay must produce the same."""

    kind: ClassVar[str] = "snapshot"
    digest: str


Event = (
    AttemptStarted
    | ContainersFound
    | ReconcileClosed
    | Queued
    | Unsatisfiable
    | Excluded
    | Granted
    | Registered
    | Started
    | FirstOutput
    | Exited
    | ContainerEnded
    | Silent
    | Stalled
    | StallEnded
    | StragglerFound
    | StragglerEnded
    | SessionOpened
    | GangSizeSet
    | FailureClassified
    | KillRequested
    | RestartRequested
    | StacksRequested
    | RemoteProgramRequested
    | LogLevelRequested
    | DeadlinePassed
    | ActionFailed
    | Snapshot
)
#: By the word in the log.
EVENTS: Mapping[str, type[Event]] = {cls.kind: cls for cls in get_args(Event)}
#: Events that record requests.
REQUESTS: tuple[type[JobRequest], ...] = tuple(cls for cls in EVENTS.values() if issubclass(cls, JobRequest))
