"""The smaller tabs of a job: its events, recommendations, configuration and files."""

from __future__ import annotations

from starlette.responses import Response

from tony.advice.heuristic import format_evidence, format_saving
from tony.advice.recommendation import Advice
from tony.config.resolved_table import ResolvedRow, list_recorded_rows
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.event_text import INTERNAL_EVENTS, EventWords, name_event
from tony.linux.thread_pools import to_thread
from tony.web.job_advice import drop_answers, load_advice
from tony.web.pages.job_layout import PagerLink, Unknown, await_part, await_with_timeout, build_frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render

#: Events on a page.
_PAGE_SIZE = 200
#: How long a request waits for recommendations; the computation continues for the next request.
_ADVICE_TIMEOUT_SECONDS = 20.0
#: Recommendations shown on the overview.
_OVERVIEW_COUNT = 3


async def render_events(page_request: PageRequest) -> Response:
    """Return the page with the last events, or with those after a given number."""
    view, report = await page_request.find_job(shown=ShownFiles())
    after = page_request.get_number("after", -_PAGE_SIZE, -_PAGE_SIZE)
    entries = await view.read_events(after, _PAGE_SIZE)
    words = EventWords()
    values = await build_frame(page_request, view, report, "events")
    first = entries[0].seq if entries else 1
    last = entries[-1].seq if entries else 0
    further = await view.read_events(last, 1) if entries else ()

    def to(after: int) -> str:
        return page_request.links.to_job(report.job, "events", {"after": str(after)})

    pages = [PagerLink(label=f"Events {first} – {last}")]
    if first > 1:
        pages.insert(0, PagerLink(label="Earlier", href=to(max(0, first - 1 - _PAGE_SIZE)), rel="prev"))
        pages.insert(0, PagerLink(label="First", href=to(0)))
    if further:
        pages.append(PagerLink(label="Later", href=to(last), rel="next"))
        pages.append(PagerLink(label="Latest", href=page_request.links.to_job(report.job, "events")))
    values |= {
        "events": [
            (entry, name_event(entry.event), words.describe(entry.event))
            for entry in entries
            if not isinstance(entry.event, INTERNAL_EVENTS)
        ],
        "pages": pages if len(pages) > 1 else [],
        "live": values["live"] and not further,
    }
    return render("events.html", page_request, values)


async def render_advice(page_request: PageRequest) -> Response:
    """Return the page; with the parameter `part`, the part for the overview."""
    view, report = await page_request.find_job(shown=ShownFiles())
    values = await build_frame(page_request, view, report, "advice")
    found = await await_with_timeout(
        load_advice(view, page_request.portal_user, page_request.context.provider), _ADVICE_TIMEOUT_SECONDS
    )
    is_part = bool(page_request.get_word("part"))
    values |= {
        "advice": found if isinstance(found, Advice) else None,
        "why": found.why if isinstance(found, Unknown) else "",
        "shown": drop_answers(found, report.failure if is_part else None) if isinstance(found, Advice) else [],
        "most": _OVERVIEW_COUNT if is_part else 1000,
        "format_evidence": format_evidence,
        "saved": format_saving,
    }
    return render("advice_part.html" if is_part else "advice.html", page_request, values)


async def render_settings(page_request: PageRequest) -> Response:
    """Return the resolved configuration: every value that was set, or all, and where it was set."""
    view, report = await page_request.find_job(shown=ShownFiles())
    values = await build_frame(page_request, view, report, "settings")
    rows = await await_part(_load_rows(view))
    every = page_request.get_word("all") == "yes"
    if isinstance(rows, tuple):
        values["default_count"] = sum(row.is_default for row in rows)
        rows = tuple(row for row in rows if every or not row.is_default)
    values |= {"rows": rows, "every": every}
    return render("settings.html", page_request, values)


async def _load_rows(view: DirectoryJobView) -> tuple[ResolvedRow, ...] | None:
    record = await view.record()
    return None if record is None else await to_thread(list_recorded_rows, record)


async def render_files(page_request: PageRequest) -> Response:
    """Return the list of the files of the job directory; each is downloaded from the API."""
    view, report = await page_request.find_job(shown=ShownFiles())
    values = await build_frame(page_request, view, report, "files")
    values["files"] = await await_part(view.files())
    return render("files.html", page_request, values)
