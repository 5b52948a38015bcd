"""Reserved but unused GPU- and GB-hours, by user and week."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from tony import clock
from tony.advice.wasted_hours import Hours, WeekOfWaste
from tony.web.job_advice import MAX_JOBS, WEEK, compute_waste
from tony.web.request import PageRequest
from tony.web.template_rendering import render

#: Periods offered, in weeks.
_WEEKS = (1, 4, 12, 52)
#: Reasons, in the order of the page.
_PARTS = {
    "unused": "requested but never used",
    "redone": "recomputing lost steps",
    "restart": "from a failure until tasks ran again",
    "idle": "exited, container not yet released",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedResourcesRow:
    """A user's week. `share` is the unused part of the GPU-hours, or of the GB-hours if there are no GPUs."""

    week: WeekOfWaste
    share: float
    parts: tuple[tuple[str, Hours], ...]


async def render_page(page_request: PageRequest) -> Response:
    weeks = page_request.get_number("weeks", 4, 1, 520)
    user = page_request.get_word("user")
    found = await compute_waste(page_request.portal_user, page_request.provider, clock.wall() - weeks * WEEK, user)
    return render(
        "waste.html",
        page_request,
        {
            "title": "Unused resources",
            "rows": [_build_row(week) for week in found.weeks],
            "found": found,
            "weeks": weeks,
            "choices": sorted({*_WEEKS, weeks}),
            "user": user,
            "most": MAX_JOBS,
            "gpus": any(week.held.gpu_hours for week in found.weeks),
        },
    )


def _build_row(week: WeekOfWaste) -> UnusedResourcesRow:
    held, wasted = week.held, week.wasted
    whole, part = (held.gpu_hours, wasted.gpu_hours) if held.gpu_hours else (held.gb_hours, wasted.gb_hours)
    return UnusedResourcesRow(
        week=week,
        share=min(1.0, part / whole) if whole else 0.0,
        parts=tuple((text, week.parts[name]) for name, text in _PARTS.items() if name in week.parts),
    )
