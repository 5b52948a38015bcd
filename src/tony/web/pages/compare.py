"""Two jobs side by side: how they went, what differs in their configuration, where their time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.responses import Response

from tony.dataclass import dataclass, replace
from tony.jobs.comparison import ComparedJob, Comparison, MetricDifference, SettingDifference, change
from tony.model.job_query import Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.metrics import OF_PROGRAMS, Unit, series_of
from tony.web.authorization import find_job, jobs_for
from tony.web.job_comparison import comparison
from tony.web.job_source import JobView
from tony.web.page_text import NOTHING, count, duration, hours, measured, percent
from tony.web.pages.job_layout import frame
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import render

#: Further runs that are offered.
_OTHERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One row of a comparison; a note stands behind its value: where that was set, or by how much it is more."""

    label: str
    values: tuple[str, ...]
    notes: tuple[str, ...] = ("", "")

    @property
    def differs(self) -> bool:
        """Whether they are not all the same."""
        return len(set(self.values)) > 1


async def page(asked: PageRequest) -> Response:
    """The page; with one job only, it offers others of the same name."""
    names = [name for name in (asked.word("a"), asked.word("b")) if name]
    if not names:
        raise NotAnswered(400, "Which jobs?", "Open a job and choose Compare there.")
    found = [await _job(asked, name) for name in names]
    reports = [report for _, report in found]
    values = await frame(asked, *found[0], "compare")
    same, others = await _others(asked, reports)
    values |= {
        "title": "Compare",
        "reports": reports,
        "same_name": same,
        "others": others,
        "live": False,
    }
    if len(found) == 2:
        compares = await comparison(*found)
        values |= {
            "facts": _facts(reports, (compares.a, compares.b)),
            "settings": None if compares.settings is None else [_setting(each) for each in compares.settings],
            "same": compares.same,
            "seconds": _seconds(compares),
            "metrics": _measures(compares),
        }
    return render("compare.html", asked, values)


async def _job(asked: PageRequest, job: str) -> tuple[JobView, JobReport]:
    if found := await find_job(asked.visitor, asked.source, job):
        return found
    raise NotAnswered(404, "There is no such job here", f"{job[:80]}: it may have been removed, or you may not see it.")


async def _others(asked: PageRequest, reports: Sequence[JobReport]) -> tuple[list[JobHead], list[JobHead]]:
    """Return other jobs to compare with, newest first: those of the same name, and all others."""
    shown = {report.job for report in reports}
    found: dict[str, JobHead] = {}
    for query in (Query(text=reports[0].name, most=4 * _OTHERS), Query(most=2 * _OTHERS)):
        page = await jobs_for(asked.visitor, asked.source, query)
        found |= {head.job: head for head in page.heads if head.job not in shown}
    same = [head for head in found.values() if head.name == reports[0].name]
    others = [head for head in found.values() if head.name != reports[0].name]
    return same[:_OTHERS], others[:_OTHERS]


def _facts(reports: Sequence[JobReport], sides: Sequence[ComparedJob]) -> list[ComparisonRow]:
    def line(label: str, of: Callable[[JobReport], str]) -> ComparisonRow:
        return ComparisonRow(label=label, values=tuple(of(report) for report in reports))

    def numbers(
        label: str, text: Callable[[float | None], str], of: Callable[[ComparedJob], float | None]
    ) -> ComparisonRow:
        return _numbers(label, text, [of(side) for side in sides])

    return [
        line("State", lambda report: report.state.value),
        numbers("Took", duration, lambda side: side.took),
        numbers("Goodput", percent, lambda side: side.goodput),
        line("Tasks", lambda report: count(len(report.tasks))),
        line("Sessions", lambda report: str(report.session)),
        ComparisonRow(label="Restarts", values=tuple(str(side.restarts) for side in sides)),
        line("First cause", lambda report: report.failure.reason if report.failure else NOTHING),
        numbers("GPU-hours", hours, lambda side: side.gpu_hours),
        numbers("GB-hours", hours, lambda side: side.gb_hours),
        line("User", lambda report: report.user),
        line("Scheduler", lambda report: report.scheduler),
    ]


def _numbers(label: str, text: Callable[[float | None], str], values: Sequence[float | None]) -> ComparisonRow:
    return ComparisonRow(label=label, values=tuple(text(value) for value in values), notes=("", change(*values)))


def _seconds(found: Comparison) -> list[ComparisonRow]:
    """What is something in either."""
    pairs = {bucket: (found.a.seconds[bucket], found.b.seconds[bucket]) for bucket in found.a.seconds}
    return [_numbers(bucket, duration, pair) for bucket, pair in pairs.items() if any(pair)]


def _measures(found: Comparison) -> list[ComparisonRow]:
    """What is something in either."""
    return [_measure(each) for each in found.measures if each.a or each.b]


def _measure(each: MetricDifference) -> ComparisonRow:
    series = series_of(each.series)
    unit = series.unit if series else Unit.NONE
    made = _numbers(f"{each.role}: {each.series}", lambda value: measured(value, unit), (each.a, each.b))
    # How much a loss or an accuracy has changed is no matter of per cent.
    return replace(made, notes=("", "")) if each.series.startswith(OF_PROGRAMS) else made


def _setting(each: SettingDifference) -> ComparisonRow:
    """Its two values, each with where it was set."""
    values = [value or (NOTHING, "") for value in (each.a, each.b)]
    return ComparisonRow(
        label=each.key, values=tuple(text for text, _ in values), notes=tuple(source for _, source in values)
    )
