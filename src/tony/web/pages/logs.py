"""The output of a job: lines of all tasks in the order of their times, filtered, from any position on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup
from starlette.responses import Response

from tony.errors import UserError
from tony.jobs.directory.job_logs import MAX_MERGED_LOGS
from tony.jobs.directory.merged_logs import MergedLine, MergedLines
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.log_files import LogFileInfo
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.web import ansi_html
from tony.web.log_query import ALL_SESSIONS, START, LogQuery
from tony.web.pages.job_layout import PagerLink, build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

#: Lines on a page, and of these before a line whose surroundings are shown.
_PAGE_LINES = 500
_CONTEXT_LINES = 60
#: Roles and tasks that are listed to choose from; of a larger job the task is typed.
_MAX_CHOICES = 200
_STREAMS = {"out": "standard output", "err": "standard error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedLine:
    """A line of output.

    Attributes:
        html: its text, with colours.
        href: where its surroundings are shown, if lines are filtered by text; else empty.
        is_hit: its surroundings are shown.
    """

    html: Markup
    at: float | None
    name: LogName
    href: str
    is_hit: bool


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job(shown=ShownFiles(task=page_request.get_word("task")))
    query = _parse_query(page_request, report)
    logs = view.job_logs()
    tasks = query.find_tasks(report)
    missing = await logs.fetch_output(tasks)
    names = await logs.list_names()
    found = await _read_lines(view, names, query)
    values = await build_frame(page_request, view, report, "logs")
    chosen = query.selection.select(names)
    values |= {
        "words": query.words,
        "since": page_request.get_word("since"),
        "streams": _STREAMS,
        "sessions": sorted({name.session for name in names}, reverse=True),
        "all_sessions": ALL_SESSIONS,
        "choices": _list_choices(report),
        "missing": missing,
        "left_out": max(0, len(chosen) - MAX_MERGED_LOGS),
        "most_logs": MAX_MERGED_LOGS,
        "lines": list(_render_lines(page_request, report, query, found)),
        "has_tasks": len({name.task for name in chosen}) > 1,
        "has_sessions": len({name.session for name in chosen}) > 1,
        "has_logs": bool(chosen),
        "is_cut": found.is_cut,
        "is_at_end": query.is_at_end,
        "pages": _build_pager(page_request, report, query, found),
        "files": await _list_files(view, tasks, chosen),
    }
    values["live"] = values["live"] and query.is_at_end
    return render("logs.html", page_request, values)


def _parse_query(page_request: PageRequest, report: JobReport) -> LogQuery:
    words = {name: page_request.get_word(name) for name in page_request.words}
    try:
        return LogQuery.parse(words, report)
    except ValueError as error:
        raise PageError(400, "Invalid address", str(error)) from None
    except UserError as error:
        raise PageError(404, "Task not found", str(error)) from None


async def _read_lines(view: DirectoryJobView, names: Sequence[LogName], query: LogQuery) -> MergedLines:
    logs = view.job_logs()
    if not query.shows_context:
        return await logs.read_lines(
            names,
            query.selection,
            text=query.text,
            start=query.start,
            backwards=query.is_backwards,
            most=_PAGE_LINES,
        )
    before = await logs.read_lines(names, query.selection, start=query.start, backwards=True, most=_CONTEXT_LINES)
    after = await logs.read_lines(names, query.selection, start=query.start, most=_PAGE_LINES - _CONTEXT_LINES)
    return replace(after, lines=before.lines + after.lines, earlier=before.earlier)


def _render_lines(
    page_request: PageRequest, report: JobReport, query: LogQuery, found: MergedLines
) -> Iterator[RenderedLine]:
    """Yield the lines as HTML; a colour continues on the next line of the same log."""
    styles: dict[LogName, ansi_html.TextStyle] = {}
    words = {name: value for name, value in query.words.items() if name != "text"}
    for line in found.lines:
        name = line.start.name
        html, style = ansi_html.render_line(
            line.data.decode("utf-8", errors="replace"), styles.get(name, ansi_html.PLAIN)
        )
        styles[name] = ansi_html.PLAIN if query.text else style
        href = page_request.links.to_job(report.job, "logs", {**words, "at": str(line.start)}) if query.text else ""
        yield RenderedLine(html=html, at=line.at, name=name, href=href, is_hit=_is_hit(query, line))


def _is_hit(query: LogQuery, line: MergedLine) -> bool:
    return query.shows_context and line.start == query.start


def _build_pager(page_request: PageRequest, report: JobReport, query: LogQuery, found: MergedLines) -> list[PagerLink]:
    def to(**place: str) -> str:
        return page_request.links.to_job(report.job, "logs", {**query.words, **place})

    made: list[PagerLink] = []
    if found.earlier:
        made.append(PagerLink(label="Start", href=to(after=START)))
        made.append(PagerLink(label="Earlier", href=to(before=str(found.earlier)), rel="prev"))
    if found.later:
        made.append(PagerLink(label="Later", href=to(after=str(found.later)), rel="next"))
    if not query.is_at_end:
        made.append(PagerLink(label="End", href=to()))
    return made


def _list_choices(report: JobReport) -> list[str]:
    """Return roles of several tasks, and tasks; empty if there are too many."""
    roles = [task.role for task in report.tasks]
    several = [role for role in dict.fromkeys(roles) if roles.count(role) > 1] if len(roles) <= _MAX_CHOICES else []
    return [*several, *(task.task for task in report.tasks)] if len(roles) <= _MAX_CHOICES else []


async def _list_files(view: DirectoryJobView, tasks: Sequence[str], chosen: Sequence[LogName]) -> Sequence[LogFileInfo]:
    """Return the selected logs of a single task, to download."""
    if len(tasks) != 1:
        return ()
    return [file for file in await view.task_logs(tasks[0]).files() if LogName.parse(file.name) in chosen]
