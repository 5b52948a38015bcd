"""Recommendations for a job with the changes to its job file: a page, or its first entries for the overview."""

from __future__ import annotations

from starlette.responses import Response

from tony.advice.heuristic import format_evidence, format_saving
from tony.advice.recommendation import Advice
from tony.web.job_advice import load_advice
from tony.web.pages.job_layout import Unknown, await_with_timeout, build_frame
from tony.web.request import PageRequest
from tony.web.template_rendering import render

#: How long a request waits; the computation continues for the next request.
_TIMEOUT_SECONDS = 20.0
#: Recommendations shown on the overview.
_OVERVIEW_COUNT = 3


async def render_page(page_request: PageRequest) -> Response:
    """Return the page; with the parameter `part`, the part for the overview."""
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "advice")
    found = await await_with_timeout(
        load_advice(view, page_request.portal_user, page_request.provider), _TIMEOUT_SECONDS
    )
    is_part = bool(page_request.get_word("part"))
    values |= {
        "advice": found if isinstance(found, Advice) else None,
        "why": found.why if isinstance(found, Unknown) else "",
        "most": _OVERVIEW_COUNT if is_part else 1000,
        "format_evidence": format_evidence,
        "saved": format_saving,
    }
    return render("advice_part.html" if is_part else "advice.html", page_request, values)
