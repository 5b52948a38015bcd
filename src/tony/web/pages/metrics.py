"""What was measured: per role the median and who is far from it, per task the mean between the extremes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from tony.dataclass import dataclass
from tony.errors import TonyError
from tony.history.metrics_reader import Metrics, Peak
from tony.history.timeline import Timeline
from tony.linux.threads import to_thread
from tony.model.ids import TaskId
from tony.model.metrics import Unit, series_of
from tony.web.page_text import measured
from tony.web.pages.job_layout import await_with_timeout, frame
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import render

#: What comes first; other series follow by name. What only counts up towards something is no chart.
_ORDER = ("cpu", "rss", "pss", "util", "memory", "power", "disk-read", "disk-write", "net-in", "net-out")
_LEFT_OUT = ("total", "memory-total")
#: Points of one line of a chart.
_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One series of one role: whose means are lowest and highest, the median of them, and the highest value of all."""

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
    """One series."""

    name: str
    what: str
    of_host: bool
    rows: tuple[MetricRow, ...]


async def page(asked: PageRequest) -> Response:
    """The page."""
    view, report = await asked.job()
    values = await frame(asked, view, report, "metrics")
    metrics = await view.metrics()
    line = await await_with_timeout(view.timeline(), 0.5)
    problem, kinds = await to_thread(_summed_up, metrics) if metrics else ("", ())
    values |= {
        "kinds": kinds,
        "problem": problem,
        "accepted": line.accepted if isinstance(line, Timeline) else 0.0,
    }
    return render("metrics.html", asked, values)


async def points(asked: PageRequest) -> Response:
    """Numbers for charts: one series of each role or of one task; without a series, which ones a task has."""
    view, report = await asked.job()
    series, task = asked.word("series"), asked.word("task")
    if task and not any(each.task == task for each in report.tasks):
        raise NotAnswered(404, "The job has no such task", "Its page lists those that it has.")
    try:
        metrics = await view.metrics()
    except TonyError as error:
        return JSONResponse({"problem": str(error), "series": [], "lines": []})
    if metrics is None:
        return JSONResponse({"problem": "", "series": [], "lines": []})
    return JSONResponse(await to_thread(_points, metrics, series, task))


def _points(metrics: Metrics, series: str, task: str) -> dict[str, object]:
    with metrics:
        if not series:
            own = metrics.peaks(TaskId.parse(task).role).get(task, {}) if task else dict.fromkeys(metrics.series())
            return {"problem": metrics.problem, "series": [_described(name) for name in ordered(own)]}
        lines = (
            [_of_task(metrics, task, series)] if task else [_of_role(metrics, role, series) for role in _roles(metrics)]
        )
        found = [line for line in lines if line["at"]]
        return {**_described(series), "problem": metrics.problem, "lines": found}


def _of_task(metrics: Metrics, task: str, series: str) -> dict[str, object]:
    found = metrics.points(task, series, most=_POINTS)
    return {
        "label": task,
        "every": found.every,
        "at": found.at,
        "least": found.least,
        "middle": found.mean,
        "most": found.most,
    }


def _of_role(metrics: Metrics, role: str, series: str) -> dict[str, object]:
    found = metrics.of_role(role, series, most=_POINTS)
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


def _roles(metrics: Metrics) -> list[str]:
    return list(dict.fromkeys(TaskId.parse(task).role for task in metrics.tasks()))


def _described(name: str) -> dict[str, object]:
    known = series_of(name)
    return {
        "name": name,
        "what": known.what if known else "",
        "unit": known.unit.value if known else "",
        "of_host": bool(known and known.of_host),
    }


def ordered(names: Mapping[str, object] | list[str]) -> list[str]:
    """Names of series as people look for them."""

    def key(name: str) -> tuple[int, str]:
        last = name.rpartition(".")[2]
        if name.startswith("user."):
            return -1, name
        return (_ORDER.index(last) if last in _ORDER else len(_ORDER)), name

    return sorted((name for name in names if name.rpartition(".")[2] not in _LEFT_OUT), key=key)


def _summed_up(metrics: Metrics) -> tuple[str, tuple[SeriesChart, ...]]:
    with metrics:
        roles = _roles(metrics)
        peaks = {role: metrics.peaks(role) for role in roles}
        kinds = tuple(_kind(name, peaks) for name in ordered(list(metrics.series())))
        return metrics.problem, tuple(kind for kind in kinds if kind.rows)


def _kind(name: str, peaks: Mapping[str, Mapping[str, Mapping[str, Peak]]]) -> SeriesChart:
    known = series_of(name)
    unit = known.unit if known else Unit.NONE
    rows: list[MetricRow] = []
    for role, tasks in peaks.items():
        found = sorted((each[name].mean, task) for task, each in tasks.items() if name in each)
        if found:
            rows.append(
                MetricRow(
                    role=role,
                    tasks=len(found),
                    median=measured(statistics.median(mean for mean, _ in found), unit),
                    least=measured(found[0][0], unit),
                    least_of=found[0][1],
                    most=measured(found[-1][0], unit),
                    most_of=found[-1][1],
                    peak=measured(max(each[name].most for each in tasks.values() if name in each), unit),
                )
            )
    return SeriesChart(
        name=name, what=known.what if known else "", of_host=bool(known and known.of_host), rows=tuple(rows)
    )
