"""The status of a job for users and programs. One definition serves every surface."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from tony.errors import ExitCode
from tony.model.failure import EXIT_CODES, Failure, FailureClass
from tony.model.ids import TaskId
from tony.model.job_spec import DEFAULT_SCHEDULER
from tony.model.states import ENDED_TASK_STATES, LIVING_TASK_STATES, JobState, TaskState


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
        step, total: the last step that its last task attempt reported, and the number of steps; None if not reported.
        rate: steps per second now; None while it makes none, and after the end.
        memory: resident bytes; None if not known, and after the end.
        note: why it waits, or how it ended; may be empty.
        note_repeats_exit: `note` contains no more than `exit_code` or `signal`.
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
    step: float | None = None
    total: float | None = None
    rate: float | None = None
    memory: float | None = None
    note: str = ""
    note_repeats_exit: bool = False

    @property
    def id(self) -> TaskId:
        return TaskId(self.role, self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSize:
    """The number of tasks of an elastic role in the current session.

    Attributes:
        tasks: how many take part.
        least, most: bounds from the job file.
        left_out: those that do not take part.
    """

    role: str
    tasks: int
    least: int
    most: int
    left_out: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedMemory:
    """The memory of a role that was raised because a task was killed for memory (`memory_on_oom`).

    Attributes:
        memory: bytes of each further container.
        requested: bytes in the job file.
    """

    role: str
    memory: int
    requested: int


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

    @property
    def total(self) -> int:
        return self.charged + self.free


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
        waiting: which tasks are missing and why, where the programs hang, or which are silent since a peer succeeded,
            one sentence; may be empty.
        stalled: its programs make no progress: `waiting` says which and where.
        stalled_task: the task that the others wait for then; empty if none is known.
        unfinished: which tasks the job still waits for once another one has succeeded, one sentence; else empty.
        stragglers: which tasks are slow compared with the others of their role, and why, one sentence each; else empty.
        restarts: number of restarts; None before any.
        session_reason: why the current session was started; empty if it is the first.
        previous_failure: the failure after which the current session was started; None if there was none.
        resumption: at which step the current session or task attempt continued, one sentence; empty before a restart,
            and where no steps are reported.
        restarting: why the next session is started and whether it counts against max_restarts; empty unless the job is
            restarting.
        warnings: what is suspicious although nothing has failed, one sentence each, at most four.
        raised_memory: roles whose tasks get more memory than the job file says.
        job_file: its absolute path; empty if there was none, or options were given in addition.
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
    job_file: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    used: Used | None = None
    viewers: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    session_reason: str = ""
    previous_failure: Failure | None = None
    resumption: str = ""
    unfinished: str = ""
    raised_memory: tuple[RaisedMemory, ...] = ()
    warnings: tuple[str, ...] = ()
    stragglers: str = ""
    stalled: bool = False
    stalled_task: str = ""

    @property
    def took(self) -> float | None:
        """Seconds from submission to end; None if one of them is unknown."""
        return None if self.submitted is None or self.ended is None else max(0.0, self.ended - self.submitted)


#: A task in one of these states has a container.
_TASK_STATES_WITH_CONTAINER = LIVING_TASK_STATES | {TaskState.STARTING, TaskState.REGISTERED}


def change_result(report: JobReport, failure: Failure | None) -> JobReport:
    """Return the report of an ended job with another result: state and exit code follow from the failure.

    Args:
        failure: None for a job that succeeded.
    """
    if failure is None:
        return replace(report, state=JobState.SUCCEEDED, exit_code=int(ExitCode.SUCCEEDED), failure=None)
    state = JobState.KILLED if failure.failure_class is FailureClass.KILLED else JobState.FAILED
    return replace(report, state=state, exit_code=int(EXIT_CODES[failure.failure_class]), failure=failure)


def end_report(
    report: JobReport,
    failure: Failure | None,
    *,
    at: float,
    note: str,
    task_state: TaskState = TaskState.STOPPED,
    started_states: Set[TaskState] = _TASK_STATES_WITH_CONTAINER,
) -> JobReport:
    """Return the last report of a job that its AM did not end normally: nothing of it is running.

    Args:
        failure: None for a job that succeeded.
        at: wall-clock seconds since 1970.
        note: how the tasks ended that had been started.
        task_state: their state now.
        started_states: the states of such tasks before; the others were never started.
    """
    tasks = tuple(_end_task(task, at, note, task_state, started_states) for task in report.tasks)
    return change_result(
        replace(report, am=None, waiting="", stalled=False, stalled_task="", ended=at, tasks=tasks), failure
    )


def _end_task(task: TaskReport, at: float, note: str, state: TaskState, started_states: Set[TaskState]) -> TaskReport:
    if task.state in ENDED_TASK_STATES:
        return replace(task, pid=None, executor_pid=None)
    if task.state not in started_states:
        state, note = TaskState.STOPPED, "never started"
    return replace(
        task,
        state=state,
        since=at,
        pid=None,
        executor_pid=None,
        last_output_age=None,
        rate=None,
        memory=None,
        note=note,
    )
