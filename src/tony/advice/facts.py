"""The input of heuristics: one run of a job, and the earlier runs of the same job. Pure.

Data that was not measured or reported is None or empty; heuristics then report nothing.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tony.core import events as ev
from tony.core.events import FailureResponse
from tony.history.event_log import LogEntry
from tony.history.goodput import HOUR, Bucket, GoodputLedger, TaskLedger, ledger
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Peak
from tony.history.timeline import TaskPhase, Timeline, TimelineReader
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.model.job_spec import GIB, JobSpec
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.progress import CheckpointRecord, ProgressRecords
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.units import MAX_DURATION, MAX_SIZE


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


@dataclass(slots=True)
class Exits:
    """Collects exits and failures from a stream of events."""

    ended: list[ProgramExit] = field(default_factory=list)
    failed: list[FailureRecord] = field(default_factory=list)
    out_of_memory_roles: list[str] = field(default_factory=list)  #: role of each task attempt that ran out of memory
    _last: dict[str, ProgramExit] = field(default_factory=dict)
    _tasks: dict[str, str] = field(default_factory=dict)  #: container -> task
    _session: int = 0

    def watch(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """Yield the same entries, and record their exits and failures."""
        for entry in entries:
            self._record(entry.event, entry.at)
            yield entry

    def _record(self, event: ev.Event, at: float) -> None:
        match event:
            case ev.SessionOpened(session=session):
                self._session = session
            case ev.Registered(task=task, container=container):
                self._tasks[container] = str(task)
            case ev.Exited(task=task, session=session, status=status):
                name = str(task)
                found = ProgramExit(task=name, role=task.role, session=session, at=at, status=status)
                self.ended.append(found)
                self._last[name] = found
                if status.reason is ExitReason.MEMORY:
                    self.out_of_memory_roles.append(task.role)
            case ev.ContainerEnded(container=container, kill=ev.ClusterKill.MEMORY_LIMIT):
                died = self._tasks.get(container, "")
                last = self._last.get(died)
                is_counted = last and last.session == self._session and last.status.reason is ExitReason.MEMORY
                if died and not is_counted:
                    self.out_of_memory_roles.append(parse_role(died))
            case ev.FailureClassified(task=task, failure=failure, decision=decision):
                name = "" if task is None else str(task)
                last = self._last.get(name)
                if last is not None and last.session != self._session:
                    last = None
                self.failed.append(
                    FailureRecord(
                        at=at,
                        session=self._session,
                        task=name,
                        decision=decision,
                        what=failure,
                        ran=last.status.duration if last else None,
                        how=last.status.describe() if last else "",
                        by_program=last is not None and last.status.reason is ExitReason.EXITED,
                    )
                )


T = TypeVar("T")

#: Samples of memory over a run that are used to detect growth.
_MAX_SAMPLES = 64
_MIN_SAMPLES = 6
#: Growth in the last quarter that is significant.
_GROWTH_FACTOR = 1.05


class MeasuredRun(ProgressRecords, Protocol):
    """The metrics of a job, from `history/metrics_reader.py`."""

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        """Return task -> series -> its extremes and mean."""

    def read_role_series(
        self, role: str, name: str, since: float | None = None, until: float | None = None, most: int = 500
    ) -> RolePoints:
        """Return one series over all tasks of a role."""


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
        found = [task["pss"].most if "pss" in task else task["rss"].most for task in self.used.values() if _has(task)]
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
        return sum(_has(task) and "cpu" in task for task in self.used.values()) >= self.tasks


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


def run_of(
    record: JobRecord,
    entries: Iterable[LogEntry],
    measured: MeasuredRun | None = None,
    report: JobReport | None = None,
    until: float | None = None,
) -> Run:
    """Collect the facts of one run.

    Args:
        entries: its event log.
        measured: its metrics and reported progress; None if there are none.
        report: its final report; None if it has not ended, or if unknown.
        until: the present time, seconds since 1970, for a running job.

    Raises:
        RecordError, StorageError: from `entries`.
    """
    exits = Exits()
    reader = TimelineReader(record)
    for entry in exits.watch(entries):
        reader.take(entry)
    line = reader.timeline()
    if until is not None:
        line = reader.timeline(until - line.accepted)
    sums = ledger(line, measured)
    spec = record.spec
    roles = _collect_roles(spec, exits, line, sums, measured, report)
    ended = report.ended if report and report.state.ended else None
    if ended is None and line.ended is not None:
        ended = line.accepted + line.ended
    return Run(
        job=record.job_id,
        name=spec.name,
        user=record.user,
        submitted=record.submitted,
        ended=ended,
        state=report.state if report else JobState.RUNNING,
        spec=spec,
        roles=roles,
        ledger=sums,
        sessions=len(line.sessions),
        running=max((found.longest for found in roles.values() if found.kind is RoleKind.TRACKED), default=0.0),
        failures=tuple(exits.failed),
        saves=_summarize_checkpoints(measured.checkpoints() if measured else ()),
        furthest=_find_last_steps(measured),
    )


def _collect_roles(
    spec: JobSpec,
    exits: Exits,
    line: Timeline,
    sums: GoodputLedger,
    measured: MeasuredRun | None,
    report: JobReport | None,
) -> dict[str, RoleFacts]:
    peaks = _drop_impossible(measured.peaks() if measured else {})
    steps = _seconds_per_step(measured)
    run_times = _sum_run_times(line)
    hosts = {task.task: task.host for task in report.tasks if task.host} if report else {}
    roles: dict[str, RoleFacts] = {}
    for name, role in spec.effective_roles.items():
        role_tasks = [task for task in sums.tasks if task.role == name]
        peak, counted = _find_peak(name, exits.ended, peaks)
        roles[name] = RoleFacts(
            role=name,
            kind=role.kind,
            tasks=role.instances,
            memory=role.resources.memory,
            vcores=role.resources.vcores,
            gpus=role.resources.gpus,
            procs=role.procs_per_task,
            held=math.fsum(map(_sum_held, role_tasks)) / HOUR,
            idle=math.fsum(task.held[Bucket.IDLE.value] or 0.0 for task in role_tasks) / HOUR,
            ran=_select_tasks(name, run_times),
            peak=peak,
            counted=counted,
            used=_select_tasks(name, peaks),
            growing=_is_growing(name, measured),
            steps=_select_tasks(name, steps),
            out_of_memory=exits.out_of_memory_roles.count(name),
            hosts=_select_tasks(name, hosts),
        )
    return roles


def _select_tasks(role: str, values: Mapping[str, T]) -> dict[str, T]:
    return {task: value for task, value in values.items() if parse_role(task) == role}


# --- the parts --------------------------------------------------------------------------------------------------------


def _drop_impossible(peaks: Mapping[str, Mapping[str, Peak]]) -> Mapping[str, Mapping[str, Peak]]:
    """Drop impossible numbers: job directories are untrusted."""
    return {
        task: {
            name: peak
            for name, peak in used.items()
            if all(0 <= each <= MAX_SIZE for each in (peak.least, peak.mean, peak.most))
        }
        for task, used in peaks.items()
    }


def _has(task: Mapping[str, Peak]) -> bool:
    return "pss" in task or "rss" in task


def _sum_held(task: TaskLedger) -> float:
    return math.fsum(value for value in task.held.values() if value is not None)


def _sum_run_times(line: Timeline) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in line.spans:
        if span.what is TaskPhase.RUNNING:
            found[span.task] = found.get(span.task, 0.0) + span.seconds
    return found


def _find_peak(
    role: str, ended: Sequence[ProgramExit], peaks: Mapping[str, Mapping[str, Peak]]
) -> tuple[int | None, int]:
    """Return the peak memory of a role from exit reports and metrics, and the number of tasks with a known peak."""
    found: dict[str, float] = {}
    for program_exit in ended:
        if program_exit.role == role and 0 < (program_exit.status.peak_memory or 0) <= MAX_SIZE:
            found[program_exit.task] = max(found.get(program_exit.task, 0.0), program_exit.status.peak_memory or 0)
    for task, series in peaks.items():
        if parse_role(task) == role and _has(series):
            most = max(series[name].most for name in ("pss", "rss") if name in series)
            found[task] = max(found.get(task, 0.0), most)
    return (int(max(found.values())) if found else None), len(found)


def _is_growing(role: str, measured: MeasuredRun | None) -> bool | None:
    """Return True if memory was significantly higher in the last quarter of the run than before."""
    for name in ("pss", "rss"):
        points = measured.read_role_series(role, name, most=_MAX_SAMPLES) if measured else None
        if points and len(points.most) >= _MIN_SAMPLES and all(map(math.isfinite, points.most)):
            edge = len(points.most) * 3 // 4
            return max(points.most[edge:]) > _GROWTH_FACTOR * max(points.most[:edge])
    return None


def _seconds_per_step(measured: MeasuredRun | None) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for progress in measured.progress() if measured else ():
        if 0 <= progress.first_at < progress.at and progress.step > progress.first_step:
            total = sums.setdefault(progress.task, [0.0, 0.0])
            total[0] += progress.at - progress.first_at
            total[1] += progress.step - progress.first_step
    return {task: seconds / steps for task, (seconds, steps) in sums.items()}


def _find_last_steps(measured: MeasuredRun | None) -> dict[int, float]:
    found: dict[int, float] = {}
    for progress in measured.progress() if measured else ():
        found[progress.session] = max(found.get(progress.session, progress.step), progress.step)
    return found


def _summarize_checkpoints(saved: Sequence[CheckpointRecord]) -> CheckpointStats | None:
    by_task: dict[str, list[CheckpointRecord]] = {}
    for each in saved:
        if not 0 <= each.since <= each.until < MAX_DURATION:
            continue
        by_task.setdefault(each.task, []).append(each)
    if not by_task:
        return None
    task, role_tasks = max(by_task.items(), key=lambda item: len(item[1]))
    role_tasks.sort(key=lambda each: each.since)
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(role_tasks)
        if (one.session, one.try_) == (other.session, other.try_)
    ]
    strides = {other.step - one.step for one, other in pairs}
    return CheckpointStats(
        task=task,
        count=len(role_tasks),
        cost=statistics.fmean(each.until - each.since for each in role_tasks),
        every=statistics.median(other.since - one.since for one, other in pairs) if pairs else None,
        steps=strides.pop() if len(strides) == 1 else None,
    )


def gigabytes(size: float) -> float:
    """Return GB of 1024³ bytes."""
    return size / GIB
