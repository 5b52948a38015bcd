"""Two jobs side by side: results, differences of the configuration, where the time went, metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from tony.jobs.comparison import (
    ComparedJob,
    Comparison,
    MetricDifference,
    SettingDifference,
    compare_jobs,
    format_change,
)
from tony.model.job_query import Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.metric_definitions import find_unit
from tony.web.authorization import list_visible_jobs
from tony.web.page_text import NOTHING, format_hours, format_integer, format_metric, format_percent, format_seconds
from tony.web.pages.job_layout import build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

#: Jobs offered to compare with, of the same name and of other names each.
_MAX_OFFERED_JOBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One row of a comparison. A note follows its value: where it was set, or the relative difference."""

    label: str
    values: tuple[str, ...]
    notes: tuple[str, ...] = ("", "")

    @property
    def differs(self) -> bool:
        """True unless all values are equal."""
        return len(set(self.values)) > 1


async def render_page(page_request: PageRequest) -> Response:
    """Return the page; if only one job is given, it offers others to compare with."""
    names = [name for name in (page_request.get_word("a"), page_request.get_word("b")) if name]
    if not names:
        raise PageError(400, "No jobs given", "Open a job and choose Compare.")
    found = [await page_request.find_job(name) for name in names]
    reports = [report for _, report in found]
    values = await build_frame(page_request, *found[0], "compare")
    same, others = await _find_others(page_request, reports)
    values |= {
        "title": "Compare",
        "reports": reports,
        "same_name": same,
        "others": others,
        "live": False,
    }
    if len(found) == 2:
        compares = await compare_jobs(*(view for view, _ in found))
        values |= {
            "facts": _collect_facts(reports, (compares.a, compares.b)),
            "settings": None
            if compares.settings is None
            else [_build_setting_row(setting) for setting in compares.settings],
            "same": compares.same,
            "seconds": _build_seconds_rows(compares),
            "metrics": [_build_metric_row(measure) for measure in compares.measures],
        }
    return render("compare.html", page_request, values)


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


def _collect_facts(reports: Sequence[JobReport], sides: Sequence[ComparedJob]) -> list[ComparisonRow]:
    def make_line(label: str, of: Callable[[JobReport], str]) -> ComparisonRow:
        return ComparisonRow(label=label, values=tuple(of(report) for report in reports))

    def make_numbers(
        label: str, text: Callable[[float | None], str], of: Callable[[ComparedJob], float | None]
    ) -> ComparisonRow:
        return _build_numbers_row(label, text, [of(side) for side in sides])

    return [
        make_line("State", lambda report: report.state.value),
        make_numbers("Duration", format_seconds, lambda side: side.took),
        make_numbers("Goodput", format_percent, lambda side: side.goodput),
        make_line("Tasks", lambda report: format_integer(len(report.tasks))),
        make_line("Sessions", lambda report: str(report.session)),
        ComparisonRow(label="Restarts", values=tuple(str(side.restarts) for side in sides)),
        ComparisonRow(label="Root cause", values=tuple(side.root_cause or NOTHING for side in sides)),
        make_numbers("GPU-hours", format_hours, lambda side: side.gpu_hours),
        make_numbers("GB-hours", format_hours, lambda side: side.gb_hours),
        make_line("User", lambda report: report.user),
        make_line("Scheduler", lambda report: report.scheduler),
    ]


def _build_numbers_row(
    label: str, text: Callable[[float | None], str], values: Sequence[float | None]
) -> ComparisonRow:
    return ComparisonRow(label=label, values=tuple(text(value) for value in values), notes=("", format_change(*values)))


def _build_seconds_rows(found: Comparison) -> list[ComparisonRow]:
    """Return the buckets that are nonzero in either job."""
    pairs = {bucket: (found.a.seconds[bucket], found.b.seconds[bucket]) for bucket in found.a.seconds}
    return [_build_numbers_row(bucket, format_seconds, pair) for bucket, pair in pairs.items() if any(pair)]


def _build_metric_row(each: MetricDifference) -> ComparisonRow:
    unit = find_unit(each.series)
    return ComparisonRow(
        label=f"{each.role}: {each.series}",
        values=(format_metric(each.a, unit), format_metric(each.b, unit)),
        notes=("", each.change),
    )


def _build_setting_row(each: SettingDifference) -> ComparisonRow:
    """Return the row of a setting: both values, each with where it was set."""
    values = [value or (NOTHING, "") for value in (each.a, each.b)]
    return ComparisonRow(
        label=each.key, values=tuple(text for text, _ in values), notes=tuple(source for _, source in values)
    )
