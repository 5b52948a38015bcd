"""Hours that were held for nothing, by user and week."""

from __future__ import annotations

from starlette.responses import Response

from tony import clock
from tony.advice.unused_resources import Hours, WeekOfWaste
from tony.dataclass import dataclass
from tony.web.request import PageRequest
from tony.web.template_rendering import render
from tony.web.unused_resources import LOOKED_AT, WEEK, waste_for

#: Weeks that can be looked back.
_WEEKS = (1, 4, 12, 52)
#: What the hours were lost on, in the order of the page.
_PARTS = {
    "unused": "asked for, and never used",
    "redone": "steps made a second time",
    "restart": "from a failure until programs ran again",
    "idle": "programs were over, containers still held",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedResourcesRow:
    """A user's week. `share` is of what was held: of GPU-hours, or of GB-hours where there are none."""

    week: WeekOfWaste
    share: float
    parts: tuple[tuple[str, Hours], ...]


async def page(asked: PageRequest) -> Response:
    """The page."""
    weeks = asked.number("weeks", 4, 1, 520)
    user = asked.word("user")
    found = await waste_for(asked.visitor, asked.source, clock.wall() - weeks * WEEK, user)
    return render(
        "waste.html",
        asked,
        {
            "title": "Waste",
            "rows": [_row(week) for week in found.weeks],
            "found": found,
            "weeks": weeks,
            "choices": sorted({*_WEEKS, weeks}),
            "user": user,
            "most": LOOKED_AT,
            "gpus": any(week.held.gpu_hours for week in found.weeks),
        },
    )


def _row(week: WeekOfWaste) -> UnusedResourcesRow:
    held, wasted = week.held, week.wasted
    whole, part = (held.gpu_hours, wasted.gpu_hours) if held.gpu_hours else (held.gb_hours, wasted.gb_hours)
    return UnusedResourcesRow(
        week=week,
        share=min(1.0, part / whole) if whole else 0.0,
        parts=tuple((said, week.parts[name]) for name, said in _PARTS.items() if name in week.parts),
    )
