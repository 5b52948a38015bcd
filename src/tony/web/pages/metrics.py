"""Metrics of a job: the median and the outliers per role, or mean, minimum and maximum of one task."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from starlette.responses import JSONResponse, Response

from tony.errors import TonyError
from tony.history.metrics_reader import Metrics, Peak
from tony.history.timeline import Timeline
from tony.model.ids import TaskId
from tony.model.metric_definitions import find_program_name, find_unit, series_of
from tony.web.page_text import format_metric
from tony.web.pages.job_layout import await_with_timeout, build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

#: Metrics shown first, in this order; others follow by name. Totals are not charted.
_ORDER = ("cpu", "rss", "pss", "util", "memory", "power", "disk-read", "disk-write", "net-in", "net-out")
_LEFT_OUT = ("total", "memory-total")
#: Points per line of a chart.
_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One series of one role: the median of the tasks' means, the tasks with the lowest and highest mean, the peak."""

    role: str
    tasks: int
    median: str
    least: str
    least_of: str
    most: str
    most_of: str
    peak: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChart:
    """One series with a row per role."""

    name: str
    title: str
    what: str
    rows: tuple[MetricRow, ...]


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "metrics")
    problem, kinds = await view.query_metrics(_summarize) or ("", ())
    line = await await_with_timeout(view.timeline(), 0.5)
    values |= {
        "kinds": kinds,
        "problem": problem,
        "accepted": line.accepted if isinstance(line, Timeline) else 0.0,
    }
    return render("metrics.html", page_request, values)


async def serve_points(page_request: PageRequest) -> Response:
    """Return chart data as JSON: one series per role or of one task; without a series, the list of series."""
    view, report = await page_request.find_job()
    series, task = page_request.get_word("series"), page_request.get_word("task")
    if task and not any(each.task == task for each in report.tasks):
        raise PageError(404, "Task not found", "The job has no such task; see its list of tasks.")
    try:
        points = await view.query_metrics(partial(_build_points, series=series, task=task))
    except TonyError as error:
        return JSONResponse({"problem": str(error), "series": [], "lines": []})
    return JSONResponse(points or {"problem": "", "series": [], "lines": []})


def _build_points(metrics: Metrics, series: str, task: str) -> dict[str, object]:
    if not series:
        own = metrics.peaks(TaskId.parse(task).role).get(task, {}) if task else dict.fromkeys(metrics.series())
        return {"problem": metrics.problem, "series": [_describe(name) for name in select_charted_series(own)]}
    lines = (
        [_build_task_points(metrics, task, series)]
        if task
        else [_build_role_points(metrics, role, series) for role in _list_roles(metrics)]
    )
    found = [line for line in lines if line["at"]]
    return {**_describe(series), "problem": metrics.problem, "lines": found}


def _build_task_points(metrics: Metrics, task: str, series: str) -> dict[str, object]:
    found = metrics.points(task, series, most=_POINTS)
    return {
        "label": task,
        "every": found.every,
        "at": found.at,
        "least": found.least,
        "middle": found.mean,
        "most": found.most,
    }


def _build_role_points(metrics: Metrics, role: str, series: str) -> dict[str, object]:
    found = metrics.read_role_series(role, series, most=_POINTS)
    return {
        "label": role,
        "every": found.every,
        "at": found.at,
        "least": found.least,
        "middle": found.median,
        "most": found.most,
        "least_of": found.least_of,
        "most_of": found.most_of,
        "tasks": max(found.tasks, default=0),
    }


def _list_roles(metrics: Metrics) -> list[str]:
    return list(dict.fromkeys(TaskId.parse(task).role for task in metrics.tasks()))


def _describe(name: str) -> dict[str, object]:
    title, what = _find_label(name)
    return {"name": name, "title": title, "what": what, "unit": find_unit(name).value}


def _find_label(name: str) -> tuple[str, str]:
    """Return the title and the description of a series, as shown on pages."""
    known = series_of(name)
    what = known.what if known else ""
    reported = find_program_name(name)
    return (name, what) if reported is None else (reported, f"({what})")


def select_charted_series(names: Mapping[str, object] | list[str]) -> list[str]:
    """Return the series that have a chart, user series first."""

    def key(name: str) -> tuple[int, str]:
        last = name.rpartition(".")[2]
        if find_program_name(name) is not None:
            return -1, name
        return (_ORDER.index(last) if last in _ORDER else len(_ORDER)), name

    return sorted((name for name in names if name.rpartition(".")[2] not in _LEFT_OUT), key=key)


def _summarize(metrics: Metrics) -> tuple[str, tuple[SeriesChart, ...]]:
    peaks = {role: metrics.peaks(role) for role in _list_roles(metrics)}
    kinds = tuple(_draw_chart(name, peaks) for name in select_charted_series(list(metrics.series())))
    return metrics.problem, tuple(kind for kind in kinds if kind.rows)


def _draw_chart(name: str, peaks: Mapping[str, Mapping[str, Mapping[str, Peak]]]) -> SeriesChart:
    unit = find_unit(name)
    rows: list[MetricRow] = []
    for role, tasks in peaks.items():
        found = sorted((each[name].mean, task) for task, each in tasks.items() if name in each)
        if found:
            rows.append(
                MetricRow(
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
    title, what = _find_label(name)
    return SeriesChart(name=name, title=title, what=what, rows=tuple(rows))
