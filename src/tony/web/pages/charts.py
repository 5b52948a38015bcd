"""Charts of metrics: how they are drawn, which there are, their data, and the newest values as text.

Charts are drawn by the script (`charts.js`). Without it a page shows the newest values, and its tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from starlette.responses import JSONResponse

from tony.history.metrics_reader import Metrics, Peak
from tony.jobs.metric_curves import (
    DERIVED,
    GPU_USE,
    STEP_RATE,
    Curve,
    CurveAxis,
    CurveOwner,
    is_gpu_utilization,
    load_curve,
)
from tony.model.ids import parse_role
from tony.model.metric_definitions import DEVICE, PROGRAM, MetricGroup, MetricSeries, find_program_name, series_of
from tony.model.progress import TaskProgress
from tony.units import Unit
from tony.web.page_text import format_metric
from tony.web.request import PageError, PageRequest

#: Tasks of which pages read the newest values at most.
_MAX_NEWEST_TASKS = 400
#: Totals are not charted.
_LEFT_OUT = ("total", "memory-total")
_MEASURES = (*PROGRAM, *DEVICE)
_GROUPS = tuple(MetricGroup)
#: Each choice: value in the address, label.
AXES = ((CurveAxis.TIME.value, "time"), (CurveAxis.STEP.value, "step"))
SCALES = (("linear", "linear"), ("log", "logarithmic"))
SMOOTHINGS = (("0", "none"), ("0.6", "light"), ("0.9", "medium"), ("0.98", "strong"))
#: The choices of the page by their name in the address.
CHOICES = {"axis": AXES, "scale": SCALES, "smooth": SMOOTHINGS}
#: Task -> series -> its newest value.
Newest = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartOptions:
    """How charts are drawn, as the address of the page says.

    Attributes:
        scale: `linear` or `log`, of the values.
        smooth: one of `SMOOTHINGS`.
    """

    axis: CurveAxis = CurveAxis.TIME
    scale: str = "linear"
    smooth: str = "0"

    @property
    def words(self) -> dict[str, str]:
        """Return the query parameters; none for defaults."""
        known = {"axis": self.axis.value, "scale": self.scale, "smooth": self.smooth}
        return {name: value for name, value in known.items() if value not in ("time", "linear", "0")}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestValue:
    """The newest value of a chart's line, as text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of one series.

    Attributes:
        what: description.
        values: one for each line.
    """

    name: str
    title: str
    what: str
    unit: Unit
    group: MetricGroup
    values: tuple[NewestValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartGroup:
    """The charts of one group; `empty` are those whose values are all 0."""

    title: str
    charts: tuple[Chart, ...]
    empty: tuple[Chart, ...]


def read_options(page_request: PageRequest) -> ChartOptions:
    """Return the options in the address of a page.

    Raises:
        PageError: one of them is invalid.
    """
    return ChartOptions(
        axis=CurveAxis(_choose(page_request, "axis", AXES)),
        scale=_choose(page_request, "scale", SCALES),
        smooth=_choose(page_request, "smooth", SMOOTHINGS),
    )


def _choose(page_request: PageRequest, name: str, choices: Sequence[tuple[str, str]]) -> str:
    values = [value for value, _ in choices]
    value = page_request.get_word(name) or values[0]
    if value not in values:
        raise PageError(400, "Invalid address", f"{name} must be one of {', '.join(values)}.")
    return value


def describe_series(name: str) -> Chart:
    """Return a chart of a series, without values."""
    known = DERIVED.get(name) or series_of(name) or MetricSeries(name, name, Unit.NONE, "", MetricGroup.PROGRAM)
    what = "" if find_program_name(name) is not None else known.what
    return Chart(name=name, title=known.title, what=what, unit=known.unit, group=known.group)


def select_series(names: Iterable[str]) -> list[str]:
    """Return the series that have a chart, in the order of their groups; user series begin with the loss."""
    found = [name for name in names if name.rpartition(".")[2] not in _LEFT_OUT or find_program_name(name) is not None]
    if "step" in found:
        found.append(STEP_RATE.name)
    if sum(map(is_gpu_utilization, found)) > 1:
        found.append(GPU_USE.name)
    return sorted(found, key=_find_place)


def _find_place(name: str) -> tuple[int, int, int, str]:
    group = describe_series(name).group
    device, _, measure = name.rpartition(".")
    if group is MetricGroup.PROGRAM:
        title = name.casefold()
        place = (0 if title == "user.loss" else 1 if "loss" in title else 2), 0
    elif name in DERIVED:
        place = (_MEASURES.index("step"), 1) if name == STEP_RATE.name else (-1, 0)
    elif group is MetricGroup.GPU:
        place = int(device.removeprefix("gpu")), _MEASURES.index(measure)
    else:
        place = _MEASURES.index(name), 0
    return _GROUPS.index(group), *place, name


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeries:
    """The series of a job or a task, and those of them whose values are not all 0."""

    names: frozenset[str] = frozenset()
    nonzero: frozenset[str] = frozenset()


def list_measured(metrics: Metrics, task: str = "") -> MeasuredSeries:
    """Return the series that were measured, of one task or of all."""
    peaks = metrics.peaks(parse_role(task) if task else None)
    return build_measured([peaks.get(task, {})] if task else peaks.values())


def build_measured(peaks: Iterable[Mapping[str, Peak]]) -> MeasuredSeries:
    """Return the series of some tasks from the peaks of each."""
    found = list(peaks)
    return MeasuredSeries(
        names=frozenset(name for each in found for name in each),
        nonzero=frozenset(name for each in found for name, peak in each.items() if peak.least or peak.most),
    )


def group_charts(measured: Iterable[MeasuredSeries], newest: Newest | None = None) -> tuple[ChartGroup, ...]:
    """Return the charts of the series of some jobs.

    Args:
        newest: their values, for charts of one job.
    """
    found = list(measured)
    nonzero = {name for each in found for name in each.nonzero}
    nonzero |= DERIVED.keys()
    groups: dict[MetricGroup, tuple[list[Chart], list[Chart]]] = {}
    for name in select_series({name for each in found for name in each.names}):
        chart = describe_series(name)
        chart = replace(chart, values=format_newest(name, newest) if newest else ())
        groups.setdefault(chart.group, ([], []))[name not in nonzero].append(chart)
    return tuple(
        ChartGroup(title=group.value, charts=tuple(groups[group][0]), empty=tuple(groups[group][1]))
        for group in _GROUPS
        if group in groups
    )


def read_newest(
    metrics: Metrics, progress: Mapping[str, TaskProgress], series: Collection[str] | None = None
) -> Newest:
    """Return the newest values of all tasks, with the last reported step of each and its rate.

    Of a job with very many tasks only the latter: reading the others takes seconds.

    Args:
        series: those that are needed; None for all.
    """
    tasks = metrics.tasks()
    is_small = len(tasks) <= _MAX_NEWEST_TASKS
    measured = metrics.read_newest(_list_sources(metrics, series)) if is_small else {}
    found = {task: dict(measured.get(task, {})) for task in tasks}
    for task, each in progress.items():
        found.setdefault(task, {})["step"] = each.step
        if each.rate is not None:
            found[task][STEP_RATE.name] = each.rate
    for values in found.values():
        if utils := [value for name, value in values.items() if is_gpu_utilization(name)]:
            values[GPU_USE.name] = statistics.fmean(utils)
    return found


def _list_sources(metrics: Metrics, series: Collection[str] | None) -> Collection[str] | None:
    """Return the stored series of which some are made."""
    if series is None or GPU_USE.name not in series:
        return series
    return [*series, *filter(is_gpu_utilization, metrics.series())]


def select_task(newest: Newest, task: str) -> Newest:
    """Return the values of one task, or of all if it is empty."""
    return {task: newest.get(task, {})} if task else newest


def select_overview(names: Iterable[str], newest: Newest) -> tuple[Chart, ...]:
    """Return the charts of a job's overview: its loss, step rate, GPU, CPU and memory, as far as there are any."""
    found = select_series(names)
    programs = [name for name in found if find_program_name(name) is not None][:1]
    gpus = [name for name in found if name == GPU_USE.name or is_gpu_utilization(name)][:1]
    chosen = [*programs, *(name for name in (STEP_RATE.name, *gpus, "cpu", "rss") if name in found)]
    return tuple(replace(describe_series(name), values=format_newest(name, newest)) for name in chosen)


def format_newest(series: str, newest: Newest) -> tuple[NewestValue, ...]:
    """Return the newest values of a series: the median of the tasks of each role, or the rate of the slowest."""
    roles: dict[str, list[float]] = {}
    for task, values in newest.items():
        if series in values:
            roles.setdefault(parse_role(task), []).append(values[series])
    choose = min if series == STEP_RATE.name else statistics.median
    unit = describe_series(series).unit
    return tuple(NewestValue(label=role, text=format_metric(choose(found), unit)) for role, found in roles.items())


def list_roles(metrics: Metrics) -> list[str]:
    """Return the roles whose tasks have metrics, in the order of the job."""
    return list(dict.fromkeys(parse_role(task) for task in metrics.tasks()))


def load_lines(metrics: Metrics, series: str, owners: Iterable[CurveOwner], options: ChartOptions) -> list[Curve]:
    """Return the lines of a chart; those without points are left out."""
    curves = (load_curve(metrics, owner, series, options.axis, float(options.smooth)) for owner in owners)
    return [curve for curve in curves if curve.at]


def build_answer(series: str, lines: Sequence[Curve], values: Sequence[NewestValue], problem: str = "") -> JSONResponse:
    """Return the data of a chart for the script."""
    chart = describe_series(series)
    return JSONResponse(
        {
            "name": series,
            "what": chart.what,
            "unit": chart.unit.value,
            "lines": [asdict(line) for line in lines],
            "values": [asdict(value) for value in values],
            "problem": problem,
        }
    )
