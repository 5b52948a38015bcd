"""Jobs side by side: curves in one chart, results, differences of the configuration, where the time went, metrics."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response

from tony import control_characters
from tony.history.metrics_reader import Metrics
from tony.jobs.comparison import (
    ComparedJob,
    JobsComparison,
    MetricMedians,
    SettingValues,
    compare_several_jobs,
    format_change,
)
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.metric_curves import Curve, CurveOwner
from tony.model.job_query import Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.metric_definitions import MetricGroup, find_program_name, find_unit
from tony.web.authorization import list_visible_jobs
from tony.web.page_text import NOTHING, format_hours, format_integer, format_metric, format_percent, format_seconds
from tony.web.pages import charts
from tony.web.pages.charts import NewestValue
from tony.web.pages.job_layout import Unknown, await_part, build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

#: Jobs that are compared at once: as many as there are colours of lines.
MAX_COMPARED_JOBS = 8
#: Groups of charts that are not folded.
_FIRST_GROUPS = (MetricGroup.PROGRAM, MetricGroup.PROGRESS, MetricGroup.GPU)
#: Jobs offered to compare with, of the same name and of other names each.
_MAX_OFFERED_JOBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One row of a comparison. A note follows its value: where it was set, or the difference from the first job."""

    label: str
    values: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """True unless all values are equal."""
        return len(set(self.values)) > 1


async def render_page(page_request: PageRequest) -> Response:
    """Return the page; if only one job is given, it offers others to compare with."""
    found = await _find_jobs(page_request)
    reports = [report for _, report in found]
    options = charts.read_options(page_request)
    values = await build_frame(page_request, *found[0], "compare")
    same, others = await _find_others(page_request, reports)
    values |= {
        "title": "Compare",
        "frame": "job_frame.html" if len(found) == 1 else "compare_frame.html",
        "reports": reports,
        "names": [("job", report.job) for report in reports],
        "most": MAX_COMPARED_JOBS,
        "same_name": same,
        "others": others,
        "live": False,
        "without": [_link(page_request, [each for each in reports if each is not report]) for report in reports],
    }
    if len(found) > 1:
        views = [view for view, _ in found]
        compared = await compare_several_jobs(views)
        values |= {
            "options": options,
            "choices": charts.CHOICES,
            "itself": _link(page_request, reports),
            "points": _link(page_request, reports, "compare/points", options.words),
            "groups": charts.group_charts([await _list_measured(view) for view in views]),
            "first_groups": _FIRST_GROUPS,
            "facts": _collect_facts(reports, compared.jobs),
            "settings": None
            if compared.settings is None
            else [_build_setting_row(setting) for setting in compared.settings],
            "same": compared.same,
            "seconds": _build_seconds_rows(compared),
            "metrics": [_build_metric_row(measure) for measure in compared.measures],
        }
    return render("compare.html", page_request, values)


async def serve_points(page_request: PageRequest) -> Response:
    """Return the data of one chart as JSON: a line per job, over the time since it was accepted, or over its steps."""
    series, options = page_request.get_word("series"), charts.read_options(page_request)
    lines: list[Curve] = []
    values: list[NewestValue] = []
    for view, report in await _find_jobs(page_request):
        load = partial(_load_line, series=series, name=_name_line(report), options=options)
        loaded = await await_part(view.query_metrics(load))
        if not isinstance(loaded, Unknown) and loaded is not None:
            lines += loaded[0]
            values += loaded[1]
    return charts.build_answer(series, lines, values if len(values) == len(lines) else ())


def _load_line(
    metrics: Metrics, *, series: str, name: str, options: charts.ChartOptions
) -> tuple[list[Curve], list[NewestValue]]:
    """Return the line of a whole job, with its newest value as far as that is stored."""
    lines = charts.load_lines(metrics, series, [CurveOwner(name=name)], options)
    newest = [values[series] for values in charts.read_newest(metrics, {}, (series,)).values() if series in values]
    if not lines or not newest:
        return lines, []
    return lines, [
        NewestValue(label=name, text=format_metric(statistics.median(newest), charts.describe_series(series).unit))
    ]


async def _find_jobs(page_request: PageRequest) -> list[tuple[DirectoryJobView, JobReport]]:
    """Return the jobs that the address names, each once.

    Raises:
        PageError: there are none, there are too many, or one cannot be found.
    """
    names = list(dict.fromkeys(name for name in page_request.request.query_params.getlist("job") if name))
    if not names:
        raise PageError(400, "No jobs given", "Choose jobs in the list of jobs, or open a job and choose Compare.")
    if len(names) > MAX_COMPARED_JOBS:
        raise PageError(400, "Too many jobs", f"At most {MAX_COMPARED_JOBS} jobs can be compared; choose fewer.")
    return [await page_request.find_job(name) for name in names]


def _link(
    page_request: PageRequest, reports: Sequence[JobReport], path: str = "compare", words: dict[str, str] | None = None
) -> str:
    return page_request.links.to_page(path, [*(("job", report.job) for report in reports), *(words or {}).items()])


def _name_line(report: JobReport) -> str:
    """Return the label of a job's line: its name and the end of its id."""
    return control_characters.escape(f"{report.name[:40]} {report.job[-6:]}")


async def _list_measured(view: DirectoryJobView) -> charts.MeasuredSeries:
    found = await await_part(view.query_metrics(charts.list_measured))
    return found if isinstance(found, charts.MeasuredSeries) else charts.MeasuredSeries()


async def _find_others(page_request: PageRequest, reports: Sequence[JobReport]) -> tuple[list[JobHead], list[JobHead]]:
    """Return other jobs to compare with, newest first: those of the same name, and all others."""
    shown = {report.job for report in reports}
    found: dict[str, JobHead] = {}
    for query in (Query(text=reports[0].name, most=4 * _MAX_OFFERED_JOBS), Query(most=2 * _MAX_OFFERED_JOBS)):
        page = await list_visible_jobs(page_request.portal_user, page_request.context.provider, query)
        found |= {head.job: head for head in page.heads if head.job not in shown}
    same = [head for head in found.values() if head.name == reports[0].name]
    others = [head for head in found.values() if head.name != reports[0].name]
    return same[:_MAX_OFFERED_JOBS], others[:_MAX_OFFERED_JOBS]


def _collect_facts(reports: Sequence[JobReport], jobs: Sequence[ComparedJob]) -> list[ComparisonRow]:
    def make_line(label: str, of: Callable[[JobReport], str]) -> ComparisonRow:
        return ComparisonRow(label=label, values=tuple(of(report) for report in reports))

    def make_numbers(
        label: str, text: Callable[[float | None], str], of: Callable[[ComparedJob], float | None]
    ) -> ComparisonRow:
        return _build_numbers_row(label, text, [of(job) for job in jobs])

    return [
        make_line("State", lambda report: report.state.value),
        make_numbers("Duration", format_seconds, lambda job: job.took),
        make_numbers("Goodput", format_percent, lambda job: job.goodput),
        make_line("Tasks", lambda report: format_integer(len(report.tasks))),
        make_line("Sessions", lambda report: str(report.session)),
        ComparisonRow(label="Restarts", values=tuple(str(job.restarts) for job in jobs)),
        ComparisonRow(label="Root cause", values=tuple(job.root_cause or NOTHING for job in jobs)),
        make_numbers("GPU-hours", format_hours, lambda job: job.gpu_hours),
        make_numbers("GB-hours", format_hours, lambda job: job.gb_hours),
        make_line("User", lambda report: report.user),
        make_line("Scheduler", lambda report: report.scheduler),
    ]


def _build_numbers_row(
    label: str, text: Callable[[float | None], str], values: Sequence[float | None]
) -> ComparisonRow:
    """Return a row of numbers, each with its difference from the first."""
    return ComparisonRow(
        label=label,
        values=tuple(text(value) for value in values),
        notes=("", *(format_change(values[0], value) for value in values[1:])),
    )


def _build_seconds_rows(found: JobsComparison) -> list[ComparisonRow]:
    """Return the buckets that are nonzero in any job."""
    rows = {bucket: [job.seconds[bucket] for job in found.jobs] for bucket in found.jobs[0].seconds}
    return [_build_numbers_row(bucket, format_seconds, values) for bucket, values in rows.items() if any(values)]


def _build_metric_row(each: MetricMedians) -> ComparisonRow:
    unit = find_unit(each.series)
    row = _build_numbers_row(f"{each.role}: {each.series}", lambda value: format_metric(value, unit), each.values)
    # A relative change of what the program reports, such as a loss, has no meaning.
    return row if find_program_name(each.series) is None else replace(row, notes=())


def _build_setting_row(each: SettingValues) -> ComparisonRow:
    """Return the row of a setting: its values, each with where it was set."""
    values = [value or (NOTHING, "") for value in each.values]
    return ComparisonRow(
        label=each.key, values=tuple(text for text, _ in values), notes=tuple(source for _, source in values)
    )
