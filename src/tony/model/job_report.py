"""The status of a job for users and programs. One definition serves every surface."""

from __future__ import annotations

from dataclasses import dataclass

from tony.model.failure import Failure
from tony.model.job_spec import DEFAULT_SCHEDULER
from tony.model.states import JobState, TaskState


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
