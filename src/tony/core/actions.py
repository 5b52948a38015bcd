"""What the machine asks the shells to do. Doing one twice is harmless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tony.dataclass import dataclass, field
from tony.model.cluster_spec import ClusterSpec
from tony.model.ids import TaskId
from tony.model.job_report import Failure
from tony.model.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The root of all actions.

    Attributes:
        shows: True if its effect is visible outside: the log must be durable before it is performed.
    """

    kind: ClassVar[str] = ""
    shows: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile(Action):
    """Ask the scheduler what is left of earlier attempts; answer ContainersFound, then ReconcileClosed."""

    kind: ClassVar[str] = "reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDemand(Action):
    """Have `total` containers of a role in all, those already granted included."""

    kind: ClassVar[str] = "set-demand"
    role: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Action):
    """Start the executor of a task in a granted container."""

    kind: ClassVar[str] = "launch"
    shows: ClassVar[bool] = True
    container: str
    task: TaskId
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew(Action):
    """Tell a surviving executor that a new session opens: it reserves ports again and registers for it."""

    kind: ClassVar[str] = "renew"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Action):
    """The cluster spec of a session (or a later version of it) is known. Comes before the Starts that use it.

    Feed `Gathered` back if it has roles that may have fewer tasks than they ask for.
    """

    kind: ClassVar[str] = "publish"
    shows: ClassVar[bool] = True
    spec: ClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Action):
    """Start the user's program of a task, under spec version `version` (0: without a cluster spec).

    Attributes:
        variables: what programs of other roles have handed on (`exports`).
    """

    kind: ClassVar[str] = "start"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int
    try_: int
    version: int
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Action):
    """Stop a task's program: SIGTERM, `grace` seconds, SIGKILL. Its executor stays.

    Attributes:
        try_: the try that is to end, or never to begin; 0 in the sense of `StopProgram`.
    """

    kind: ClassVar[str] = "stop"
    shows: ClassVar[bool] = True
    task: TaskId
    session: int
    grace: float
    reason: str = ""
    try_: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Action):
    """Give a container back; its executor ends by itself, after stopping what runs."""

    kind: ClassVar[str] = "release"
    shows: ClassVar[bool] = True
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Action):
    """End a container at once, whatever runs in it: it is silent, or too late."""

    kind: ClassVar[str] = "kill"
    shows: ClassVar[bool] = True
    container: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession(Action):
    """Feed `SessionOpened` back: the machine wants it logged before the session's first effect."""

    kind: ClassVar[str] = "open-session"
    session: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Action):
    """A failure was judged: for the record and for those who watch.

    Attributes:
        decision: `tolerate`, `retry` (only that task starts again), `restart` or `fail`.
        reason: why that was decided, one sentence.
    """

    kind: ClassVar[str] = "verdict"
    failure: Failure
    decision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclude(Action):
    """Get no further container on a host, for now."""

    kind: ClassVar[str] = "exclude"
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Include(Action):
    """A host is as good as the others again."""

    kind: ClassVar[str] = "include"
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt(Action):
    """Feed `Deadline(name)` at time `at` (or later). Replaces every earlier WakeAt."""

    kind: ClassVar[str] = "wake-at"
    at: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action):
    """The job is over: write the summary, tell everyone, end."""

    kind: ClassVar[str] = "finish"
    shows: ClassVar[bool] = True
    state: JobState
    exit_code: int
    failure: Failure | None
