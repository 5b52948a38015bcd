"""Metrics of a job: charts and tables by meaning; the median and the outliers of each role, or one task."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from tony.errors import TonyError
from tony.history.metrics_reader import Metrics, Peak
from tony.history.timeline import Timeline
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.job_metrics import find_task_progress, read_reports
from tony.jobs.metric_curves import Curve, CurveOwner
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.web.page_text import format_metric
from tony.web.pages import charts
from tony.web.pages.charts import Chart, ChartGroup, ChartOptions, NewestValue
from tony.web.pages.job_layout import await_with_timeout, build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

_TIMELINE_TIMEOUT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One series of one role: the median of the tasks' means, the tasks with the lowest and highest mean, the peak."""

    series: str
    title: str
    role: str
    tasks: int
    median: str
    least: str
    least_of: str
    most: str
    most_of: str
    peak: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSection:
    """The charts of one group, and its table."""

    group: ChartGroup
    rows: tuple[MetricRow, ...]


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job(shown=ShownFiles(metrics=True))
    options = charts.read_options(page_request)
    values = await build_frame(page_request, view, report, "metrics")
    problem, sections = await view.query_metrics(partial(_build_sections, report=report)) or ("", ())
    line = await await_with_timeout(view.timeline(), _TIMELINE_TIMEOUT_SECONDS)
    values |= {
        "sections": sections,
        "problem": problem,
        "options": options,
        "choices": charts.CHOICES,
        "points": page_request.links.to_job(report.job, "points", options.words),
        "accepted": line.accepted if isinstance(line, Timeline) else 0.0,
    }
    return render("metrics.html", page_request, values)


async def serve_points(page_request: PageRequest) -> Response:
    """Return the data of one chart as JSON: a line per role, or of one task."""
    view, report = await page_request.find_job()
    series, task = page_request.get_word("series"), page_request.get_word("task")
    if task and not any(each.task == task for each in report.tasks):
        raise PageError(404, "Task not found", "The job has no such task; see its list of tasks.")
    options = charts.read_options(page_request)
    work = partial(_load_points, report=report, series=series, task=task, options=options)
    try:
        lines, values, problem = await view.query_metrics(work) or ((), (), "")
    except TonyError as error:
        lines, values, problem = (), (), str(error)
    return charts.build_answer(series, lines, values, problem)


def _load_points(
    metrics: Metrics, report: JobReport, series: str, task: str, options: ChartOptions
) -> tuple[tuple[Curve, ...], tuple[NewestValue, ...], str]:
    roles = charts.list_roles(metrics)
    owners = [CurveOwner(task=task)] if task else [CurveOwner(role=role) for role in roles]
    lines = charts.load_lines(metrics, series, owners, options)
    newest = charts.read_newest(metrics, find_task_progress(read_reports(metrics), report), (series,))
    return tuple(lines), charts.format_newest(series, charts.select_task(newest, task)), metrics.problem


def _build_sections(metrics: Metrics, report: JobReport) -> tuple[str, tuple[MetricSection, ...]]:
    found = metrics.peaks()
    peaks = {
        role: {task: each for task, each in found.items() if parse_role(task) == role}
        for role in charts.list_roles(metrics)
    }
    newest = charts.read_newest(metrics, find_task_progress(read_reports(metrics), report))
    groups = charts.group_charts([charts.build_measured(found.values())], newest)
    return metrics.problem, tuple(
        MetricSection(
            group=group,
            rows=tuple(row for chart in (*group.charts, *group.empty) for row in _build_rows(chart, peaks)),
        )
        for group in groups
    )


def _build_rows(chart: Chart, peaks: Mapping[str, Mapping[str, Mapping[str, Peak]]]) -> list[MetricRow]:
    name, unit = chart.name, chart.unit
    rows: list[MetricRow] = []
    for role, tasks in peaks.items():
        found = sorted((each[name].mean, task) for task, each in tasks.items() if name in each)
        if found:
            rows.append(
                MetricRow(
                    series=name,
                    title=chart.title,
                    role=role,
                    tasks=len(found),
                    median=format_metric(statistics.median(mean for mean, _ in found), unit),
                    least=format_metric(found[0][0], unit),
                    least_of=found[0][1],
                    most=format_metric(found[-1][0], unit),
                    most_of=found[-1][1],
                    peak=format_metric(max(each[name].most for each in tasks.values() if name in each), unit),
                )
            )
    return rows
