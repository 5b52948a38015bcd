"""Two jobs side by side: results, differences of the configuration, where the time went, metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from tony.jobs.comparison import ComparedJob, Comparison, MetricDifference, SettingDifference, change, compare_jobs
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_query import Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.metric_definitions import OF_PROGRAMS, series_of
from tony.units import Unit
from tony.web.authorization import find_job, jobs_for
from tony.web.page_text import NOTHING, count, duration, hours, measured, percent
from tony.web.pages.job_layout import frame
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


async def page(page_request: PageRequest) -> Response:
    """Return the page; if only one job is given, it offers others to compare with."""
    names = [name for name in (page_request.word("a"), page_request.word("b")) if name]
    if not names:
        raise PageError(400, "No jobs given", "Open a job and choose Compare.")
    found = [await _job(page_request, name) for name in names]
    reports = [report for _, report in found]
    values = await frame(page_request, *found[0], "compare")
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
            "facts": _facts(reports, (compares.a, compares.b)),
            "settings": None if compares.settings is None else [_setting(each) for each in compares.settings],
            "same": compares.same,
            "seconds": _seconds(compares),
            "metrics": _metrics(compares),
        }
    return render("compare.html", page_request, values)


async def _job(page_request: PageRequest, job: str) -> tuple[DirectoryJobView, JobReport]:
    if found := await find_job(page_request.portal_user, page_request.source, job):
        return found
    raise PageError(404, "Job not found", f"{job[:80]} does not exist, or you do not have permission to view it.")


async def _find_others(page_request: PageRequest, reports: Sequence[JobReport]) -> tuple[list[JobHead], list[JobHead]]:
    """Return other jobs to compare with, newest first: those of the same name, and all others."""
    shown = {report.job for report in reports}
    found: dict[str, JobHead] = {}
    for query in (Query(text=reports[0].name, most=4 * _MAX_OFFERED_JOBS), Query(most=2 * _MAX_OFFERED_JOBS)):
        page = await jobs_for(page_request.portal_user, page_request.source, query)
        found |= {head.job: head for head in page.heads if head.job not in shown}
    same = [head for head in found.values() if head.name == reports[0].name]
    others = [head for head in found.values() if head.name != reports[0].name]
    return same[:_MAX_OFFERED_JOBS], others[:_MAX_OFFERED_JOBS]


def _facts(reports: Sequence[JobReport], sides: Sequence[ComparedJob]) -> list[ComparisonRow]:
    def line(label: str, of: Callable[[JobReport], str]) -> ComparisonRow:
        return ComparisonRow(label=label, values=tuple(of(report) for report in reports))

    def numbers(
        label: str, text: Callable[[float | None], str], of: Callable[[ComparedJob], float | None]
    ) -> ComparisonRow:
        return _numbers(label, text, [of(side) for side in sides])

    return [
        line("State", lambda report: report.state.value),
        numbers("Duration", duration, lambda side: side.took),
        numbers("Goodput", percent, lambda side: side.goodput),
        line("Tasks", lambda report: count(len(report.tasks))),
        line("Sessions", lambda report: str(report.session)),
        ComparisonRow(label="Restarts", values=tuple(str(side.restarts) for side in sides)),
        line("Root cause", lambda report: report.failure.reason if report.failure else NOTHING),
        numbers("GPU-hours", hours, lambda side: side.gpu_hours),
        numbers("GB-hours", hours, lambda side: side.gb_hours),
        line("User", lambda report: report.user),
        line("Scheduler", lambda report: report.scheduler),
    ]


def _numbers(label: str, text: Callable[[float | None], str], values: Sequence[float | None]) -> ComparisonRow:
    return ComparisonRow(label=label, values=tuple(text(value) for value in values), notes=("", change(*values)))


def _seconds(found: Comparison) -> list[ComparisonRow]:
    """Return the buckets that are nonzero in either job."""
    pairs = {bucket: (found.a.seconds[bucket], found.b.seconds[bucket]) for bucket in found.a.seconds}
    return [_numbers(bucket, duration, pair) for bucket, pair in pairs.items() if any(pair)]


def _metrics(found: Comparison) -> list[ComparisonRow]:
    """Return the metrics that are nonzero in either job."""
    return [_metric(each) for each in found.measures if each.a or each.b]


def _metric(each: MetricDifference) -> ComparisonRow:
    series = series_of(each.series)
    unit = series.unit if series else Unit.NONE
    row = _numbers(f"{each.role}: {each.series}", lambda value: measured(value, unit), (each.a, each.b))
    # A relative difference of a user metric, such as a loss or an accuracy, is not meaningful.
    return replace(row, notes=("", "")) if each.series.startswith(OF_PROGRAMS) else row


def _setting(each: SettingDifference) -> ComparisonRow:
    """Return the row of a setting: both values, each with where it was set."""
    values = [value or (NOTHING, "") for value in (each.a, each.b)]
    return ComparisonRow(
        label=each.key, values=tuple(text for text, _ in values), notes=tuple(source for _, source in values)
    )
