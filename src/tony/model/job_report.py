"""The status of a job for users and programs. One definition serves every surface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from tony.errors import ExitCode
from tony.model.actor import Actor
from tony.model.failure_facts import FailureFacts
from tony.model.job_spec import DEFAULT_SCHEDULER
from tony.model.states import JobState, TaskState


class FailureClass(Enum):
    """The responsible party of a failure; decides the exit code."""

    USER = "user"  #: the user program or a limit set for it: exit 1
    INFRASTRUCTURE = "infrastructure"  #: cluster, network, machine: exit 3
    KILLED = "killed"  #: a user killed the job: exit 4
    PLATFORM = "platform"  #: a bug of tony: exit 70


EXIT_CODES: Mapping[FailureClass, ExitCode] = {
    FailureClass.USER: ExitCode.PROGRAM_FAILED,
    FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    FailureClass.KILLED: ExitCode.KILLED,
    FailureClass.PLATFORM: ExitCode.BUG,
}


class FailureCause(StrEnum):
    """What failed; the words of `cause` in reports."""

    PROGRAM = "program"
    MEMORY = "memory"
    LAUNCH = "launch"
    LIMIT = "limit"
    LOST = "lost"
    SILENT = "silent"
    PORT_COLLISION = "port-collision"
    QUEUE_TIMEOUT = "queue-timeout"
    ALLOCATION_TIMEOUT = "allocation-timeout"
    REGISTRATION_TIMEOUT = "registration-timeout"
    STARTUP_TIMEOUT = "startup-timeout"
    EXECUTION_TIMEOUT = "execution-timeout"
    JOB_TIMEOUT = "job-timeout"
    GROUP_TIMEOUT = "group-timeout"
    LIFETIME = "lifetime"
    KILLED = "killed"
    REFUSED = "refused"
    UNSATISFIABLE = "unsatisfiable"
    STORAGE = "storage"
    AM_LOST = "am-lost"
    SCHEDULER_LOST = "scheduler-lost"
    BUG = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failure of a job (or a session): the root cause, then the others.

    Attributes:
        reason: one sentence for users.
        at: seconds since the job was accepted.
        tail: the last lines of the task's stderr, oldest first.
        log: path of that task's stderr file, relative to the job directory.
        others: one line for each further failure.
        blameless: the job is not at fault: the restart does not count against max_restarts.
        actor: who killed the job; None if it was not killed.
        facts: what `reason` is made of; None where it was given as text.
        verdict: why nothing was restarted, for a failure that ended a job with restarts; else empty.
    """

    failure_class: FailureClass
    cause: FailureCause
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
    actor: Actor | None = None
    facts: FailureFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The status of one task.

    Attributes:
        task: `worker:0`.
        pid: first process of the user program, as in its host's `ps`; None when none runs.
        executor_pid: its executor; None when none runs.
        session: the session of its last task attempt; 0 before the first.
        since: wall-clock seconds since 1970 of the last change of state.
        last_output_age: seconds since its last output; None before the first or after the end.
        note: why it waits, or how it ended; may be empty.
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
    """The number of tasks of an elastic role in the current session.

    Attributes:
        tasks: how many take part.
        least, most: bounds from the job file.
        left_out: those that do not take part, `worker:3`.
    """

    role: str
    tasks: int
    least: int
    most: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """The number of restarts, of the gang or of single tasks.

    Attributes:
        charged: those that count against `max_restarts` now; free: all those that do not count.
        most: `max_restarts`.
    """

    charged: int
    most: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Resources granted to the job's containers times the hours they were allocated; so far, while it runs.

    Attributes:
        gb_hours: memory; a GB is 1024³ bytes.
    """

    gpu_hours: float
    gb_hours: float
    core_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AmReport:
    """The running application master."""

    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The status of one job: the output of `tony status ID --json`.

    Attributes:
        job: the id.
        exit_code: exit code of a command that follows the job; None until the job ended.
        folder: path of the job directory.
        am: None before the application master starts and after it has ended.
        submitted, ended: wall-clock seconds since 1970.
        waiting: which tasks are missing and why, or which are silent since a peer succeeded, one sentence; may be
            empty.
        unfinished: which tasks the job still waits for once another one has succeeded, one sentence; else empty.
        restarts: number of restarts; None before any.
        session_reason: why the current session was started; empty if it is the first.
        restarting: why the next session is started and whether it counts against max_restarts; empty unless the job is
            restarting.
        queue: the job's queue; empty if it names none.
        used: resources used so far; None if not known.
        viewers, editors: who may view it, and change it, besides its owner: users, `@groups`, `*` for all users.
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
    scheduler: str = DEFAULT_SCHEDULER
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
    editors: tuple[str, ...] = ()
    session_reason: str = ""
    unfinished: str = ""
