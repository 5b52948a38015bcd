"""Comparison of two jobs or more: their settings, results, goodput and metrics."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tony.config.resolved_table import list_recorded_rows
from tony.errors import TonyError
from tony.history.goodput import Bucket
from tony.history.metrics_reader import Metrics
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.job_metrics import sort_series
from tony.linux.thread_pools import to_thread
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.model.metric_definitions import find_program_name

T = TypeVar("T")
#: Series of which the last value is compared, not the mean.
_COUNTERS = ("step", "total")
#: Relative changes below this are not shown.
_NEGLIGIBLE_CHANGE = 0.005
#: A setting's value as written in a job file, and the place where it was set.
Value = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting that differs; None where a job does not have it."""

    key: str
    a: Value | None
    b: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDifference:
    """One series of one role: the median of its tasks' means, of steps that of the last ones; None if unknown."""

    role: str
    series: str
    a: float | None
    b: float | None

    @property
    def change(self) -> str:
        """The relative change; empty for a metric that the program reports, such as a loss, where it has no meaning."""
        return format_change(self.a, self.b) if find_program_name(self.series) is None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """The result of one of the jobs; unknown numbers are None.

    Attributes:
        took: seconds; so far, for a running job.
        restarts: of the gang and of single tasks, whether they count against max_restarts or not.
        seconds: goodput bucket -> task-seconds.
    """

    report: JobReport
    took: float | None
    restarts: int
    goodput: float | None
    gpu_hours: float | None
    gb_hours: float | None
    core_hours: float | None
    seconds: Mapping[str, float | None]

    @property
    def root_cause(self) -> str:
        """Why it failed, one sentence; empty if it did not fail."""
        return self.report.failure.reason if self.report.failure else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two jobs.

    Attributes:
        settings: those that differ; None if those of one job are unknown.
        same: number of equal settings.
        measures: those that are not zero in both jobs.
    """

    a: ComparedJob
    b: ComparedJob
    settings: tuple[SettingDifference, ...] | None
    same: int
    measures: tuple[MetricDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValues:
    """A setting that differs among jobs; None where a job does not have it."""

    key: str
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMedians:
    """One series of one role: in each job the median of its tasks' means, of steps that of the last ones.

    None where it is unknown.
    """

    role: str
    series: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsComparison:
    """A comparison of several jobs.

    Attributes:
        settings: those that differ; None if those of one job are unknown.
        same: number of equal settings.
        measures: those that are not zero in all jobs.
    """

    jobs: tuple[ComparedJob, ...]
    settings: tuple[SettingValues, ...] | None
    same: int
    measures: tuple[MetricMedians, ...]


async def compare_jobs(a: DirectoryJobView, b: DirectoryJobView) -> Comparison:
    """Compare two jobs; a part that cannot be read counts as unknown.

    Raises:
        TonyError: the status of a job is unknown.
    """
    found = await compare_several_jobs((a, b))
    settings = found.settings
    return Comparison(
        a=found.jobs[0],
        b=found.jobs[1],
        settings=None
        if settings is None
        else tuple(SettingDifference(key=each.key, a=each.values[0], b=each.values[1]) for each in settings),
        same=found.same,
        measures=tuple(
            MetricDifference(role=each.role, series=each.series, a=each.values[0], b=each.values[1])
            for each in found.measures
        ),
    )


async def compare_several_jobs(views: Sequence[DirectoryJobView]) -> JobsComparison:
    """Compare jobs; a part that cannot be read counts as unknown.

    Raises:
        TonyError: the status of a job is unknown.
    """
    settings, same = _compare_settings([await _load_settings(view) for view in views])
    return JobsComparison(
        jobs=tuple([await _summarize(view) for view in views]),
        settings=settings,
        same=same,
        measures=_compare_metrics([await _load_medians(view) for view in views]),
    )


async def _return_none_on_error(part: Awaitable[T | None]) -> T | None:
    try:
        return await part
    except TonyError:
        return None


async def _summarize(view: DirectoryJobView) -> ComparedJob:
    report = await view.status()
    goodput = await _return_none_on_error(view.goodput())
    used, restarts = report.used, report.restarts
    seconds = goodput.seconds if goodput else {}
    took = goodput.until if goodput and report.took is None else report.took
    return ComparedJob(
        report=report,
        took=took,
        restarts=restarts.total if restarts else 0,
        goodput=goodput.goodput if goodput else None,
        gpu_hours=used.gpu_hours if used else None,
        gb_hours=used.gb_hours if used else None,
        core_hours=used.core_hours if used else None,
        seconds={bucket.value: seconds.get(bucket.value) for bucket in Bucket},
    )


async def _load_settings(view: DirectoryJobView) -> Mapping[str, Value] | None:
    record = await _return_none_on_error(view.record())
    if record is None:
        return None
    rows = await _return_none_on_error(to_thread(list_recorded_rows, record))
    return None if rows is None else {row.key: (row.value, row.source) for row in rows}


async def _load_medians(view: DirectoryJobView) -> Mapping[tuple[str, str], float]:
    return await _return_none_on_error(view.query_metrics(_compute_task_medians)) or {}


def _compare_settings(found: Sequence[Mapping[str, Value] | None]) -> tuple[tuple[SettingValues, ...] | None, int]:
    jobs = [each for each in found if each is not None]
    if len(jobs) < len(found):
        return None, 0
    keys = list(dict.fromkeys(key for each in jobs for key in each))
    rows = [SettingValues(key=key, values=tuple(each.get(key) for each in jobs)) for key in keys]
    differ = tuple(row for row in rows if len({value and value[0] for value in row.values}) > 1)
    return differ, len(keys) - len(differ)


def _compare_metrics(found: Sequence[Mapping[tuple[str, str], float]]) -> tuple[MetricMedians, ...]:
    roles = dict.fromkeys(role for each in found for role, _ in each)
    names = sort_series({name for each in found for _, name in each})
    return tuple(
        MetricMedians(role=role, series=name, values=tuple(each.get((role, name)) for each in found))
        for role in roles
        for name in names
        if any(each.get((role, name)) for each in found)
    )


def _compute_task_medians(metrics: Metrics) -> Mapping[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    newest = metrics.read_newest(_COUNTERS)
    for task, peaks in metrics.peaks().items():
        values = {**{name: peak.mean for name, peak in peaks.items()}, **newest.get(task, {})}
        for name, value in values.items():
            found.setdefault((parse_role(task), name), []).append(value)
    return {key: statistics.median(values) for key, values in found.items()}


def format_change(before: float | None, after: float | None) -> str:
    """Format a change: `+12 %`, `x 3.1`; empty if it is negligible or undefined."""
    if before is None or after is None or before <= 0 or after < 0:
        return ""
    ratio = after / before
    if ratio >= 3:
        return f"x {ratio:.3g}"
    return "" if abs(ratio - 1) < _NEGLIGIBLE_CHANGE else f"{100 * (ratio - 1):+.0f} %"
