"""Comparison of two jobs: their settings, results, goodput and metrics."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Mapping
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
    """One series of one role: the median of its tasks' means; None if unknown."""

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
    """The result of one of the two jobs; unknown numbers are None.

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


async def compare_jobs(a: DirectoryJobView, b: DirectoryJobView) -> Comparison:
    """Compare two jobs; a part that cannot be read counts as unknown.

    Raises:
        TonyError: the status of a job is unknown.
    """
    jobs = await _summarize(a), await _summarize(b)
    settings, same = _compare_settings(await _load_settings(a), await _load_settings(b))
    measures = _compare_metrics(await _load_medians(a), await _load_medians(b))
    return Comparison(a=jobs[0], b=jobs[1], settings=settings, same=same, measures=measures)


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


def _compare_settings(
    a: Mapping[str, Value] | None, b: Mapping[str, Value] | None
) -> tuple[tuple[SettingDifference, ...] | None, int]:
    if a is None or b is None:
        return None, 0
    keys = dict.fromkeys((*a, *b))
    differ = [key for key in keys if (a[key][0] if key in a else None) != (b[key][0] if key in b else None)]
    found = tuple(SettingDifference(key=key, a=a.get(key), b=b.get(key)) for key in differ)
    return found, len(keys) - len(found)


def _compare_metrics(
    a: Mapping[tuple[str, str], float], b: Mapping[tuple[str, str], float]
) -> tuple[MetricDifference, ...]:
    roles = dict.fromkeys(role for role, _ in (*a, *b))
    names = sort_series({name for _, name in (*a, *b)})
    return tuple(
        MetricDifference(role=role, series=name, a=a.get((role, name)), b=b.get((role, name)))
        for role in roles
        for name in names
        if a.get((role, name)) or b.get((role, name))
    )


def _compute_task_medians(metrics: Metrics) -> Mapping[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    for task, peaks in metrics.peaks().items():
        for name, peak in peaks.items():
            found.setdefault((parse_role(task), name), []).append(peak.mean)
    return {key: statistics.median(means) for key, means in found.items()}


def format_change(before: float | None, after: float | None) -> str:
    """Format a change: `+12 %`, `x 3.1`; empty if it is negligible or undefined."""
    if before is None or after is None or before <= 0 or after < 0:
        return ""
    ratio = after / before
    if ratio >= 3:
        return f"x {ratio:.3g}"
    return "" if abs(ratio - 1) < _NEGLIGIBLE_CHANGE else f"{100 * (ratio - 1):+.0f} %"
