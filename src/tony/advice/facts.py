"""The input of heuristics: one run of a job, and the earlier runs of the same job. Pure.

Data that was not measured or reported is None or empty; heuristics then report nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tony.core import events as ev
from tony.core.events import FailureResponse
from tony.history.goodput import Bucket, GoodputLedger
from tony.history.metrics_reader import Peak
from tony.model.job_spec import GIB, JobSpec
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState
from tony.model.submission_record import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramExit:
    """The exit of one task attempt; `at` in seconds since the job was accepted."""

    task: str
    role: str
    session: int
    at: float
    status: ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A classified failure.

    Attributes:
        task: empty if it is not of a single task.
        decision: as in `FailureClassified`.
        ran: seconds that the program had run; None if unknown.
        how: exit code or signal, as text; empty if no program exited.
        by_program: the program exited by itself; its container was not taken away.
    """

    at: float
    session: int
    task: str
    decision: ev.FailureResponse
    what: str
    ran: float | None
    how: str
    by_program: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """Checkpoints of the task that saved most of them.

    Attributes:
        cost: mean duration in seconds.
        every: median seconds from the start of one to the start of the next; None with fewer than two in an attempt.
        steps: the same in steps; None if it varies.
    """

    task: str
    count: int
    cost: float
    every: float | None
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """One role in one run.

    Attributes:
        tasks, memory, vcores, gpus, procs: requested; memory in bytes per task.
        held: hours for which its containers were allocated, over all tasks.
        idle: the part of them after the program had exited.
        ran: task -> run time of its programs in seconds, all attempts.
        peak: bytes, the maximum of all tasks, including page cache where the kernel counts it.
        counted: tasks with a known peak.
        used: task -> series -> minimum, mean and maximum.
        growing: memory was still growing at the end; None: unknown.
        steps: task -> seconds per step, for tasks that reported steps.
        out_of_memory: task attempts that ran out of memory.
        hosts: task -> its last host.
    """

    role: str
    kind: RoleKind
    tasks: int
    memory: int
    vcores: int
    gpus: int
    procs: int
    held: float
    idle: float
    ran: Mapping[str, float]
    peak: int | None
    counted: int
    used: Mapping[str, Mapping[str, Peak]]
    growing: bool | None
    steps: Mapping[str, float]
    out_of_memory: int
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest(self) -> float:
        """The longest run time of a task, in seconds."""
        return max(self.ran.values(), default=0.0)

    @property
    def resident(self) -> int | None:
        """The highest resident memory of any task, in bytes; None without metrics."""
        found = [
            task["pss"].most if "pss" in task else task["rss"].most for task in self.used.values() if has_memory(task)
        ]
        return int(max(found)) if found else None

    def find_maximum(self, series: str) -> float | None:
        """Return the maximum of a series over all tasks."""
        return max((task[series].most for task in self.used.values() if series in task), default=None)

    def list_means(self, series: str) -> Mapping[str, float]:
        """Return task -> mean of a series, for tasks that have it."""
        return {name: task[series].mean for name, task in self.used.items() if series in task}

    @property
    def wholly_measured(self) -> bool:
        """True if CPU and memory metrics of all its tasks are known."""
        return sum(has_memory(task) and "cpu" in task for task in self.used.values()) >= self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job.

    Attributes:
        submitted, ended: seconds since 1970.
        running: seconds in which the gang's programs ran.
        ledger: goodput of the run.
        failures: in time order.
    """

    job: str
    name: str
    user: str
    submitted: float
    ended: float | None
    state: JobState
    spec: JobSpec
    roles: Mapping[str, RoleFacts]
    ledger: GoodputLedger
    sessions: int
    running: float
    failures: tuple[FailureRecord, ...] = ()
    saves: CheckpointStats | None = None
    furthest: Mapping[int, float] = field(default_factory=dict)  #: session -> the highest reported step

    @property
    def succeeded(self) -> bool:
        """True if the job succeeded."""
        return self.state is JobState.SUCCEEDED

    @property
    def restarts(self) -> int:
        """Number of restarts after failures."""
        return sum(failure.decision in (FailureResponse.RESTART, FailureResponse.RETRY) for failure in self.failures)

    def seconds(self, bucket: Bucket) -> float | None:
        """Return task-seconds of a bucket; None if unknown."""
        return self.ledger.seconds.get(bucket.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A run, and the earlier runs of the same job.

    Attributes:
        runs: newest first; the recommendations are for the first one.
        problems: runs that could not be read, one sentence each.
    """

    runs: tuple[Run, ...]
    problems: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """The run that the recommendations are for."""
        return self.runs[0]

    def find_role(self, role: str) -> list[tuple[Run, RoleFacts]]:
        """Return a role in all runs that have it."""
        return [(run, run.roles[role]) for run in self.runs if role in run.roles]


def is_same_job(one: JobRecord, other: JobRecord) -> bool:
    """Return True for two runs of one job: same name, user, framework, and roles with their tasks and commands."""
    if (one.user, one.spec.name, one.spec.framework) != (other.user, other.spec.name, other.spec.framework):
        return False
    return _shape(one.spec) == _shape(other.spec)


def _shape(spec: JobSpec) -> list[object]:
    return [
        (name, role.instances, role.min_instances, role.kind, role.procs_per_task, spec.command_of(name))
        for name, role in spec.effective_roles.items()
    ]


def has_memory(task: Mapping[str, Peak]) -> bool:
    """Return True if a task's series include its memory."""
    return "pss" in task or "rss" in task


def gigabytes(size: float) -> float:
    """Return GB of 1024³ bytes."""
    return size / GIB
