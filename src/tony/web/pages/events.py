"""The events of a job, in pages; the latest first."""

from __future__ import annotations

from starlette.responses import Response

from tony.jobs.event_text import EventWords
from tony.web.pages.job_layout import PagerLink, build_frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render

_PAGE_SIZE = 200


async def render_page(page_request: PageRequest) -> Response:
    """Return the page with the last events, or with those after a given number."""
    view, report = await page_request.find_job()
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
        "events": [(entry, words.describe(entry.event)) for entry in entries],
        "pages": pages if len(pages) > 1 else [],
        "live": values["live"] and not further,
    }
    return render("events.html", page_request, values)
