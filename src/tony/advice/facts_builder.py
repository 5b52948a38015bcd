"""Builds the facts of one run from its event log, metrics and report. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tony.advice.facts import CheckpointStats, FailureRecord, ProgramExit, RoleFacts, Run, has_memory
from tony.core import events as ev
from tony.history.event_log import LogEntry
from tony.history.goodput import HOUR, Bucket, GoodputLedger, TaskLedger, ledger
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Peak
from tony.history.timeline import TaskPhase, Timeline, TimelineReader
from tony.model.failure import ClusterKill
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitReason
from tony.model.progress import CheckpointRecord, ProgressRecords
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.units import MAX_DURATION, MAX_SIZE

T = TypeVar("T")

#: Samples of memory over a run that are used to detect growth.
_MAX_SAMPLES = 64
_MIN_SAMPLES = 6
#: Growth in the last quarter that is significant.
_GROWTH_FACTOR = 1.05


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
            case ev.ContainerEnded(container=container, kill=ClusterKill.MEMORY_LIMIT):
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


class MeasuredRun(ProgressRecords, Protocol):
    """The metrics of a job, from `history/metrics_reader.py`."""

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        """Return task -> series -> its extremes and mean."""

    def read_role_series(
        self, role: str, name: str, since: float | None = None, until: float | None = None, most: int = 500
    ) -> RolePoints:
        """Return one series over all tasks of a role."""


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
        if parse_role(task) == role and has_memory(series):
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


def _pair_within_attempts(ordered: Iterable[CheckpointRecord]) -> list[tuple[CheckpointRecord, CheckpointRecord]]:
    """Return each checkpoint with the next one of the same task attempt."""
    pairs = itertools.pairwise(ordered)
    return [(one, other) for one, other in pairs if (one.session, one.try_) == (other.session, other.try_)]


def _summarize_checkpoints(saved: Sequence[CheckpointRecord]) -> CheckpointStats | None:
    by_task: dict[str, list[CheckpointRecord]] = {}
    for each in saved:
        if not 0 <= each.since <= each.until < MAX_DURATION:
            continue
        by_task.setdefault(each.task, []).append(each)
    if not by_task:
        return None
    task, role_tasks = max(by_task.items(), key=lambda item: len(item[1]))
    by_time = _pair_within_attempts(sorted(role_tasks, key=lambda each: each.since))
    # A report that reaches the AM late makes its checkpoints appear later than they were.
    by_step = _pair_within_attempts(sorted(role_tasks, key=lambda each: (each.session, each.try_, each.step)))
    strides = {other.step - one.step for one, other in by_step}
    return CheckpointStats(
        task=task,
        count=len(role_tasks),
        cost=statistics.fmean(each.until - each.since for each in role_tasks),
        every=statistics.median(other.since - one.since for one, other in by_time) if by_time else None,
        steps=strides.pop() if len(strides) == 1 else None,
    )
