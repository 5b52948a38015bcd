"""What can happen to a job. Each event is logged before it is handled; a log replays to the same state.

Heartbeats, metrics and log lines are not events: the shells keep them and raise `Silent` or a `Deadline` when
something changes. Times inside events are seconds since the job was accepted, the same clock as `now`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tony.dataclass import dataclass, field
from tony.model.exit_status import ExitStatus
from tony.model.ids import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events. `kind` is the word in the log."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """An application master began its life.

    Attributes:
        wall: seconds since 1970, a label.
        settings: digest of the resolved job file, so that a replay with another file is noticed.
        gangs: the scheduler grants all of a gang's containers together or none of them.
        chooses: it can keep containers off a host.
    """

    kind: ClassVar[str] = "attempt-started"
    attempt: int
    wall: float
    settings: str
    pid: int = 0
    host: str = ""
    gangs: bool = True
    chooses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersFound(Event):
    """Containers of an earlier attempt that the scheduler still knows."""

    kind: ClassVar[str] = "containers-found"
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileClosed(Event):
    """Whatever has not shown itself by now counts as gone."""

    kind: ClassVar[str] = "reconcile-closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Event):
    """The scheduler has no room yet; says for what and behind whom. An empty reason means: no longer."""

    kind: ClassVar[str] = "queued"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsatisfiable(Event):
    """The scheduler says that it can never give what was asked for."""

    kind: ClassVar[str] = "unsatisfiable"
    role: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded(Event):
    """The scheduler gives the job nothing on some hosts from now on, for its tasks failed there (`Exclude`).

    Attributes:
        hosts: all of them; none if none is left out any more.
    """

    kind: ClassVar[str] = "excluded"
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Event):
    """The scheduler gave a container."""

    kind: ClassVar[str] = "granted"
    container: str
    role: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Event):
    """An executor is ready for a session: its ports are reserved. May be delivered again.

    Attributes:
        incarnation: nonce the executor made at its start; binds the task to that process.
        address: "host:port" of the task's reserved port.
        tb_port: port reserved for TensorBoard, or None.
        ports: further reserved ports by name.
        pid: the executor's process id on its host.
        listens: where a later application master can call the executor; empty if it comes by itself.
    """

    kind: ClassVar[str] = "registered"
    task: TaskId
    container: str
    incarnation: str
    session: int
    address: str
    tb_port: int | None = None
    ports: Mapping[str, int] | None = None
    pid: int = 0
    listens: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The user's program runs."""

    kind: ClassVar[str] = "started"
    task: TaskId
    session: int
    try_: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOutput(Event):
    """The program printed its first line: it is past its start-up."""

    kind: ClassVar[str] = "first-output"
    task: TaskId
    session: int
    try_: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited(Event):
    """The user's program is over. Every `Start` leads to exactly one of these, or to a `ContainerEnded`.

    Attributes:
        at: when it ended (not when we heard of it).
        exports: what it hands on to other programs, by variable; None for one of which it printed nothing.
    """

    kind: ClassVar[str] = "exited"
    task: TaskId
    session: int
    try_: int
    status: ExitStatus
    at: float
    exports: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnded(Event):
    """The scheduler says the container is gone, and everything in it: a proof of death.

    Attributes:
        cause: one sentence, from the scheduler or from the executor's exit status.
        blameless: True if it went through no fault of the job (preempted, node lost, refused at launch).
        silent: True if its executor's last connection is over as well: no report can come any more. Schedulers leave
            this to the application master.
        forced: True if cluster or node ended it, so that the cause says more than its executor can, which was told to
            end by somebody whom it does not know.
        over_memory: True if that was because it took more memory than it may have.
        presumed: True if the scheduler has given up the container's node and nobody has seen the container end: what
            runs in it may live until its lease is over.
        contact, lease: of such a container, filled in by the application master: when its executor was heard last
            (job time), and for how many seconds it goes on without an application master.
    """

    kind: ClassVar[str] = "container-ended"
    container: str
    cause: str
    blameless: bool = False
    silent: bool = False
    forced: bool = False
    over_memory: bool = False
    presumed: bool = False
    contact: float = 0.0
    lease: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(Event):
    """Nothing was heard from a task's executor for the heartbeat time-out.

    Attributes:
        container: where that executor lives; empty in older logs.
    """

    kind: ClassVar[str] = "silent"
    task: TaskId
    incarnation: str
    silence: float
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """Session `session` begins: the answer to `OpenSession`, logged before anything of it starts."""

    kind: ClassVar[str] = "session-opened"
    session: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Event):
    """A gang of which some may be missing was published: with how many tasks it starts. For the record only.

    Attributes:
        tasks: role -> tasks that take part, of the roles that may have fewer than they ask for.
        absent: role -> indexes of those that do not.
    """

    kind: ClassVar[str] = "gathered"
    session: int
    tasks: Mapping[str, int]
    absent: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """A failure has got its verdict. For the record only: it follows from what stands before it.

    Attributes:
        task: who failed; None if it was no single task.
        failure: what happened, one sentence.
        decision: `tolerate`, `retry` (only that task starts again), `restart` (the gang does) or `fail` (the job).
        reason: why that, and what was charged for it.
    """

    kind: ClassVar[str] = "judged"
    task: TaskId | None
    failure: str
    decision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCommand(Event):
    """Somebody asked for something.

    Attributes:
        what: `kill`, `kill-now` (no grace), `restart` (this session ends, the next one begins). Whatever else there is
            (`stacks of worker:0`, `log level debug`) is for the record only: nothing is decided by it.
    """

    kind: ClassVar[str] = "user-command"
    actor: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline(Event):
    """A time that the machine asked for with `WakeAt` has come."""

    kind: ClassVar[str] = "deadline"
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed(Event):
    """A shell could not perform an action.

    Attributes:
        action: the action's kind; container or task say on what.
    """

    kind: ClassVar[str] = "action-failed"
    action: str
    cause: str
    container: str | None = None
    task: TaskId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Event):
    """A digest of the machine's state before this event: replay must meet it."""

    kind: ClassVar[str] = "snapshot"
    digest: str


EVENTS: Mapping[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        AttemptStarted,
        ContainersFound,
        ReconcileClosed,
        Queued,
        Unsatisfiable,
        Excluded,
        Granted,
        Registered,
        Started,
        FirstOutput,
        Exited,
        ContainerEnded,
        Silent,
        SessionOpened,
        Gathered,
        Judged,
        UserCommand,
        Deadline,
        ActionFailed,
        Snapshot,
    )
}
