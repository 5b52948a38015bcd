"""What happened to a job, a page at a time; first the latest."""

from __future__ import annotations

from starlette.responses import Response

from tony.jobs.event_text import EventWords
from tony.web.pages.job_layout import PagerLink, frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render

_MOST = 200


async def page(asked: PageRequest) -> Response:
    """The page: the last ones, unless the address says after which number to begin."""
    view, report = await asked.job()
    after = asked.number("after", -_MOST, -_MOST)
    entries = await view.events(after, _MOST)
    words = EventWords()
    values = await frame(asked, view, report, "events")
    first = entries[0].seq if entries else 1
    last = entries[-1].seq if entries else 0
    further = await view.events(last, 1) if entries else ()

    def to(after: int) -> str:
        return asked.links.job(report.job, "events", {"after": str(after)})

    pages = [PagerLink(label=f"Events {first} – {last}")]
    if first > 1:
        pages.insert(0, PagerLink(label="Earlier", href=to(max(0, first - 1 - _MOST)), rel="prev"))
        pages.insert(0, PagerLink(label="First", href=to(0)))
    if further:
        pages.append(PagerLink(label="Later", href=to(last), rel="next"))
        pages.append(PagerLink(label="Latest", href=asked.links.job(report.job, "events")))
    values |= {
        "events": [(each, words.of(each.event)) for each in entries],
        "pages": pages if len(pages) > 1 else [],
        "live": values["live"] and not further,
    }
    return render("events.html", asked, values)
