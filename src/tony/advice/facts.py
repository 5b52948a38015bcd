"""What findings go by: one run of a job, and the runs of the same job before it. Pure.

What was not measured or not told is None or empty; findings are silent about it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tony.advice.exit_facts import Exits, Failed, ProgramExit
from tony.dataclass import dataclass, field
from tony.history.event_log import LogEntry
from tony.history.goodput import HOUR, Bucket, GoodputLedger, TaskLedger, ledger
from tony.history.metrics_reader import Peak, RolePoints
from tony.history.progress_records import CheckpointRecord, ProgressRecords
from tony.history.timeline import TaskPhase, Timeline, TimelineReader
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_spec import GIB, JobSpec
from tony.model.states import JobState, RoleKind
from tony.units import MAX_DURATION, MAX_SIZE

#: Buckets of memory over a run that are looked at, at most and at least, for whether it still grew at the end.
_BUCKETS, _FEWEST = 64, 6
#: Growth in the last quarter that counts.
_GROWTH = 1.05


class MeasuredRun(ProgressRecords, Protocol):
    """What was measured of a job: `history/metrics_reader.py` has it."""

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        """Task -> series -> its extremes and its mean."""

    def of_role(
        self, role: str, name: str, since: float | None = None, until: float | None = None, most: int = 500
    ) -> RolePoints:
        """One series of all tasks of a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """Checkpoints, of the task that saved most of them.

    Attributes:
        cost: seconds that one takes, the mean.
        every: seconds from one's beginning to the next one's, the median; None if there were fewer than two in a try.
        steps: the same in steps; None where that changed.
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
        tasks, memory, vcores, gpus, procs: asked for; memory in bytes of each task.
        held: hours for which its containers were held, over all tasks.
        idle: those of them in which the program was over.
        ran: task -> seconds that its programs ran, all tries.
        peak: bytes, the most of any task, page cache included where the kernel counts it.
        counted: tasks of which the peak is known.
        used: task -> series -> least, mean and most of what was measured.
        growing: its memory still grew towards the end; None: not known.
        steps: task -> seconds for each of its steps; of those that told some.
        out_of_memory: tries that died of it.
        hosts: task -> where it was last.
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
        """Seconds that the programs of the task ran that ran longest."""
        return max(self.ran.values(), default=0.0)

    @property
    def resident(self) -> int | None:
        """Bytes resident, the most of any task: what it cannot do without. None if nothing was measured."""
        found = [task["pss"].most if "pss" in task else task["rss"].most for task in self.used.values() if _has(task)]
        return int(max(found)) if found else None

    def most(self, series: str) -> float | None:
        """The highest that any task ever had of a series."""
        return max((task[series].most for task in self.used.values() if series in task), default=None)

    def means(self, series: str) -> Mapping[str, float]:
        """Task -> its mean of a series, of those that have it."""
        return {name: task[series].mean for name, task in self.used.items() if series in task}

    @property
    def wholly_measured(self) -> bool:
        """Whether processor and memory of each of its tasks are known."""
        return sum(_has(task) and "cpu" in task for task in self.used.values()) >= self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job.

    Attributes:
        submitted, ended: seconds since 1970.
        running: seconds in which programs of its gang ran.
        ledger: where its time went.
        failures: in the order of time.
        sources: dotted key -> where it was set.
    """

    job: str
    name: str
    user: str
    submitted: float
    ended: float | None
    state: JobState
    spec: JobSpec
    sources: Mapping[str, str]
    roles: Mapping[str, RoleFacts]
    ledger: GoodputLedger
    sessions: int
    running: float
    failures: tuple[Failed, ...] = ()
    saves: Saves | None = None
    furthest: Mapping[int, float] = field(default_factory=dict)  #: session -> the highest step that was told

    @property
    def succeeded(self) -> bool:
        """It came to its end."""
        return self.state is JobState.SUCCEEDED

    @property
    def restarts(self) -> int:
        """How often something began again for a failure."""
        return sum(failure.decision in ("restart", "retry") for failure in self.failures)

    def seconds(self, bucket: Bucket) -> float | None:
        """Task-seconds of a bucket; None: not known."""
        return self.ledger.seconds.get(bucket.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A run, and those of the same job before it.

    Attributes:
        runs: newest first; the first one is what the advice is for.
        problems: runs that could not be read, one sentence each.
    """

    runs: tuple[Run, ...]
    problems: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """What the advice is for."""
        return self.runs[0]

    def of(self, role: str) -> list[tuple[Run, RoleFacts]]:
        """A role in all runs that have it."""
        return [(run, run.roles[role]) for run in self.runs if role in run.roles]


def alike(one: JobRecord, other: JobRecord) -> bool:
    """Whether two are runs of one job: name, user, framework, and roles with their tasks and commands are the same."""
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
    """One run from its record.

    Args:
        entries: its event log.
        measured: what was measured, and what its programs told; None if nothing of it is known.
        report: how it ended; None if it has not, or that is not known.
        until: seconds since 1970; the present, for a job that runs.

    Raises:
        RecordError, StorageError: whatever `entries` raises.
    """
    exits = Exits()
    chronicle = TimelineReader(record)
    for entry in exits.watch(entries):
        chronicle.take(entry)
    line = chronicle.timeline()
    if until is not None:
        line = chronicle.timeline(until - line.accepted)
    sums = ledger(line, measured)
    spec = record.spec
    peaks = _sane(measured.peaks() if measured else {})
    steps = _seconds_per_step(measured)
    running = _running(line)
    hosts = {task.task: task.host for task in report.tasks if task.host} if report else {}
    roles = {}
    for name, role in spec.effective_roles.items():
        mine = [task for task in sums.tasks if task.role == name]
        peak, counted = _peak(name, exits.ended, peaks)
        roles[name] = RoleFacts(
            role=name,
            kind=role.kind,
            tasks=role.instances,
            memory=role.resources.memory,
            vcores=role.resources.vcores,
            gpus=role.resources.gpus,
            procs=role.procs_per_task,
            held=math.fsum(map(_held, mine)) / HOUR,
            idle=math.fsum(task.held[Bucket.IDLE.value] or 0.0 for task in mine) / HOUR,
            ran={task: seconds for task, seconds in running.items() if _role(task) == name},
            peak=peak,
            counted=counted,
            used={task: found for task, found in peaks.items() if _role(task) == name},
            growing=_growing(name, measured),
            steps={task: seconds for task, seconds in steps.items() if _role(task) == name},
            out_of_memory=exits.over_memory.count(name),
            hosts={task: host for task, host in hosts.items() if _role(task) == name},
        )
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
        sources=record.sources,
        roles=roles,
        ledger=sums,
        sessions=len(line.sessions),
        running=max((found.longest for found in roles.values() if found.kind is RoleKind.TRACKED), default=0.0),
        failures=tuple(exits.failed),
        saves=_saves(measured.checkpoints() if measured else ()),
        furthest=_furthest(measured),
    )


# --- the parts --------------------------------------------------------------------------------------------------------


def _sane(peaks: Mapping[str, Mapping[str, Peak]]) -> Mapping[str, Mapping[str, Peak]]:
    """Without numbers that nobody can have measured: a record may come from anybody."""
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


def _role(task: str) -> str:
    return task.rpartition(":")[0]


def _held(task: TaskLedger) -> float:
    return math.fsum(value for value in task.held.values() if value is not None)


def _running(line: Timeline) -> dict[str, float]:
    found: dict[str, float] = {}
    for span in line.spans:
        if span.what is TaskPhase.RUNNING:
            found[span.task] = found.get(span.task, 0.0) + span.seconds
    return found


def _peak(role: str, ended: Sequence[ProgramExit], peaks: Mapping[str, Mapping[str, Peak]]) -> tuple[int | None, int]:
    """The most memory of any task of a role, whoever has counted it, and of how many tasks it is known."""
    found: dict[str, float] = {}
    for each in ended:
        if each.role == role and 0 < (each.status.peak_memory or 0) <= MAX_SIZE:
            found[each.task] = max(found.get(each.task, 0.0), each.status.peak_memory or 0)
    for task, series in peaks.items():
        if _role(task) == role and _has(series):
            most = max(series[name].most for name in ("pss", "rss") if name in series)
            found[task] = max(found.get(task, 0.0), most)
    return (int(max(found.values())) if found else None), len(found)


def _growing(role: str, measured: MeasuredRun | None) -> bool | None:
    """Whether the last quarter of a role's life has its highest memory, by more than a little."""
    for name in ("pss", "rss"):
        points = measured.of_role(role, name, most=_BUCKETS) if measured else None
        if points and len(points.most) >= _FEWEST and all(map(math.isfinite, points.most)):
            edge = len(points.most) * 3 // 4
            return max(points.most[edge:]) > _GROWTH * max(points.most[:edge])
    return None


def _seconds_per_step(measured: MeasuredRun | None) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for each in measured.progress() if measured else ():
        if 0 <= each.first_at < each.at and each.step > each.first_step:
            total = sums.setdefault(each.task, [0.0, 0.0])
            total[0] += each.at - each.first_at
            total[1] += each.step - each.first_step
    return {task: seconds / steps for task, (seconds, steps) in sums.items()}


def _furthest(measured: MeasuredRun | None) -> dict[int, float]:
    found: dict[int, float] = {}
    for each in measured.progress() if measured else ():
        found[each.session] = max(found.get(each.session, each.step), each.step)
    return found


def _saves(saved: Sequence[CheckpointRecord]) -> Saves | None:
    by_task: dict[str, list[CheckpointRecord]] = {}
    for each in saved:
        if not 0 <= each.since <= each.until < MAX_DURATION:
            continue
        by_task.setdefault(each.task, []).append(each)
    if not by_task:
        return None
    task, mine = max(by_task.items(), key=lambda item: len(item[1]))
    mine.sort(key=lambda each: each.since)
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(mine)
        if (one.session, one.try_) == (other.session, other.try_)
    ]
    strides = {other.step - one.step for one, other in pairs}
    return Saves(
        task=task,
        count=len(mine),
        cost=statistics.fmean(each.until - each.since for each in mine),
        every=statistics.median(other.since - one.since for one, other in pairs) if pairs else None,
        steps=strides.pop() if len(strides) == 1 else None,
    )


def gigabytes(size: float) -> float:
    """GB of 1024³ bytes."""
    return size / GIB
