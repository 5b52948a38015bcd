"""What could be better about a job, with the change to its file: as a page, or the first of it for the overview."""

from __future__ import annotations

from starlette.responses import Response

from tony.advice.number_format import format_evidence, saved
from tony.advice.recommendation import Advice
from tony.web.job_advice import advice_about
from tony.web.pages.job_layout import Unknown, await_with_timeout, frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render

#: Seconds that somebody waits for the whole page; it is thought about on, for whoever asks next.
_PATIENCE = 20.0
#: Findings that the overview shows.
_FEW = 3


async def page(asked: PageRequest) -> Response:
    """The page; `part` in the address: what the overview shows."""
    view, report = await asked.job()
    values = await frame(asked, view, report, "advice")
    found = await await_with_timeout(advice_about(view, asked.visitor, asked.source), _PATIENCE)
    few = bool(asked.word("part"))
    values |= {
        "advice": found if isinstance(found, Advice) else None,
        "why": found.why if isinstance(found, Unknown) else "",
        "most": _FEW if few else 1000,
        "told": format_evidence,
        "saved": saved,
    }
    return render("advice_part.html" if few else "advice.html", asked, values)
