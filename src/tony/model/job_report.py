"""What people and programs are told about a job. One definition serves every surface."""

from __future__ import annotations

from enum import Enum

from tony.dataclass import dataclass
from tony.model.states import JobState, TaskState


class FailureClass(Enum):
    """Whose failure it was; decides the exit code."""

    USER = "user"  #: the user's program or a limit set for it: exit 1
    INFRASTRUCTURE = "infrastructure"  #: cluster, network, machine: exit 3
    KILLED = "killed"  #: somebody killed the job: exit 4
    PLATFORM = "platform"  #: our bug: exit 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job (or a session) failed: the earliest decisive cause first.

    Attributes:
        cause: stable word: `program`, `memory`, `launch`, `lost`, `silent`, `queue-timeout`, `allocation-timeout`,
            `registration-timeout`, `startup-timeout`, `execution-timeout`, `job-timeout`, `group-timeout`,
            `lifetime`, `port-collision`, `killed`, `refused`, `storage`, `am-lost`, `scheduler-lost`, `unsatisfiable`,
            `bug`.
        reason: one sentence for people.
        at: seconds since the job was accepted.
        tail: the last lines of the task's stderr, oldest first.
        log: path of that task's stderr file, relative to the job's folder.
        others: one line for each further failure.
        blameless: it went through no fault of the job: no restart is charged for it.
        verdict: why nothing was started again, of a failure that ended the job although it may restart; else empty.
    """

    failure_class: FailureClass
    cause: str
    reason: str
    session: int
    at: float
    task: str | None = None
    host: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    tail: tuple[str, ...] = ()
    log: str | None = None
    others: tuple[str, ...] = ()
    blameless: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One task as it stands.

    Attributes:
        task: `worker:0`.
        pid: first process of the user's program as its host's `ps` shows it; None when none runs.
        executor_pid: its executor; None when none runs.
        session: the session of its last try; 0 before the first.
        since: wall-clock seconds since 1970 of the last change of state.
        last_output_age: seconds since its last line; None before the first or after the end.
        note: why it waits, or how it ended; empty when there is nothing to say.
    """

    task: str
    role: str
    index: int
    state: TaskState
    host: str | None = None
    pid: int | None = None
    executor_pid: int | None = None
    session: int = 0
    try_: int = 0
    exit_code: int | None = None
    signal: str | None = None
    since: float | None = None
    last_output_age: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSize:
    """How many tasks of a role that may have fewer take part in the present session.

    Attributes:
        tasks: how many.
        least, most: of the job file.
        left_out: those that do not, `worker:3`.
    """

    role: str
    tasks: int
    least: int
    most: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How often something started again, be it the gang or one task alone.

    Attributes:
        charged: those that count against `most` now; free: all those that were not charged.
        most: `max_restarts`.
    """

    charged: int
    most: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the job's containers were granted, times the hours for which they were held; so far, while it runs.

    Attributes:
        gb_hours: memory; a GB is 1024³ bytes.
    """

    gpu_hours: float
    gb_hours: float
    core_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AmReport:
    """The living application master."""

    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """One job as it stands: what `tony status ID --json` prints.

    Attributes:
        job: the id.
        exit_code: what a follower's command line answers; None until the job ended.
        folder: where its record lies.
        am: None before the application master lives and after it has ended.
        submitted, ended: wall-clock seconds since 1970.
        waiting: who is missing and why, or which tasks are silent since a peer of theirs succeeded, one sentence; empty
            when there is nothing to report.
        unfinished: which tasks the job still waits for once another one has succeeded, one sentence; else empty.
        sizes: of the roles that may have fewer tasks than they ask for.
        restarts: how often something started again; None before anything did.
        session_reason: why the present session opened; empty if it is the first.
        restarting: why the next session opens and what is charged for it; empty unless the job is restarting.
        queue: that the job names; empty if it names none.
        tags: the author's words by which the job is found.
        used: what it has cost; None if nobody has counted.
        viewers, modifiers: who may look at it, and change it, besides its owner: users, `@groups`, `*` for everybody.
    """

    job: str
    name: str
    state: JobState
    session: int
    attempt: int
    exit_code: int | None
    folder: str
    am: AmReport | None
    tasks: tuple[TaskReport, ...]
    failure: Failure | None
    framework: str = "none"
    scheduler: str = "local"
    user: str = ""
    submitted: float | None = None
    ended: float | None = None
    waiting: str = ""
    sizes: tuple[RoleSize, ...] = ()
    restarts: Restarts | None = None
    restarting: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    used: Used | None = None
    viewers: tuple[str, ...] = ()
    modifiers: tuple[str, ...] = ()
    session_reason: str = ""
    unfinished: str = ""
