"""Pages of many jobs: their list, and their reserved but unused GPU- and GB-hours by user and week.

The list has search, filters and sorting. Its address contains the whole query, so that it can be shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from starlette.responses import Response

from tony import clock
from tony.advice.wasted_hours import Hours, WeekOfWaste
from tony.history.goodput import Bucket
from tony.model.job_query import DAMAGED, Facet, Facets, JobSort, JobsPage, Query, from_words, to_words
from tony.model.states import JobState
from tony.web.authorization import list_visible_jobs
from tony.web.held_requests import wait_for_list
from tony.web.job_advice import MAX_JOBS, WEEK, compute_waste
from tony.web.page_text import format_day
from tony.web.pages.job import BUCKET_TEXTS
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import TableColumn, render

#: Columns of the table: heading, sort key, and whether it sorts in descending order first.
_COLUMNS: Sequence[tuple[str, JobSort | None, bool]] = (
    ("State", JobSort.STATE, False),
    ("Job", JobSort.NAME, False),
    ("User", JobSort.USER, False),
    ("Runs on", None, False),
    ("Tasks", JobSort.TASKS, True),
    ("Submitted", JobSort.SUBMITTED, True),
    ("Duration", JobSort.DURATION, True),
    ("Restarts", JobSort.RESTARTS, True),
    ("GPU-hours", JobSort.GPU_HOURS, True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a filter; `jobs` is the number of jobs with it, None if not counted."""

    value: str
    label: str
    jobs: int | None
    chosen: bool


async def render_jobs(page_request: PageRequest) -> Response:
    try:
        query = from_words(page_request.words)
        found = await _list_jobs(page_request, query)
    except ValueError as error:
        raise PageError(400, "Invalid address", f"{error}") from None
    words = to_words(query)
    gpu_hours = JobSort.GPU_HOURS
    gpus = query.sort is gpu_hours or any(head.gpu_hours for head in found.heads)
    order = {name: words[name] for name in ("sort", "descending") if name in words}
    beyond = ("framework", "scheduler", "queue", "tag", "failure_class", "since", "until")
    return render(
        "jobs.html",
        page_request,
        {
            "title": "Jobs",
            "query": query,
            "words": words,
            "order": order,
            "columns": [
                _build_column(page_request, query, *column) for column in _COLUMNS if gpus or column[1] is not gpu_hours
            ],
            "gpus": gpus,
            "jobs": found.heads,
            "page": found,
            "now": clock.wall(),
            "filtered": query.filtered,
            "more_filters": any(name in words for name in beyond),
            "choices": _build_choices(query, found.facets),
            "next": page_request.links.to_jobs({**words, "after": found.next}) if found.next else "",
            "first": page_request.links.to_jobs({**words, "after": ""}) if query.after else "",
            "live": any(not head.state.ended for head in found.heads),
            "since": format_day(query.since),
            "until": format_day(query.until),
        },
    )


async def _list_jobs(page_request: PageRequest, query: Query) -> JobsPage:
    """Return the jobs of a page; if the client has them already, wait until there are others."""
    found = JobsPage(heads=())

    async def load() -> str:
        nonlocal found
        found = await list_visible_jobs(page_request.portal_user, page_request.context.provider, query)
        return blake2b(repr((found.heads, found.total, found.problems)).encode(), digest_size=12).hexdigest()

    page_request.set_version(await wait_for_list(page_request.request, page_request.context, load))
    return found


def _build_column(
    page_request: PageRequest, query: Query, title: str, sort: JobSort | None, descending_first: bool
) -> TableColumn:
    if sort is None:
        return TableColumn(title=title, href="", order="")
    chosen = query.sort is sort
    descending = not query.descending if chosen else descending_first
    other = replace(query, sort=sort, descending=descending, after="")
    order = ("descending" if query.descending else "ascending") if chosen else ""
    return TableColumn(
        title=title,
        href=page_request.links.to_jobs(to_words(other)),
        order=order,
        is_number=sort not in (JobSort.STATE, JobSort.NAME, JobSort.USER),
    )


def _build_choices(query: Query, facets: Facets) -> dict[str, list[Choice]]:
    states = {facet.value: facet.jobs for facet in facets.states}
    groups = ["active", "ended", *(state.value for state in JobState), DAMAGED]
    made = {
        "state": [
            Choice(value=value, label=value, jobs=states.get(value), chosen=query.state == value)
            for value in groups
            if value in ("active", "ended", "failed") or value in states or value == query.state
        ]
    }
    failure = query.failure_class.value if query.failure_class else ""
    for name, chosen, known in (
        ("user", query.user, "users"),
        ("framework", query.framework, "frameworks"),
        ("scheduler", query.scheduler, "schedulers"),
        ("queue", query.queue, "queues"),
        ("tag", query.tag, "tags"),
        ("failure_class", failure, "failure_classes"),
    ):
        values: Sequence[Facet] = getattr(facets, known)
        made[name] = [
            Choice(value=each.value, label=each.value, jobs=each.jobs, chosen=each.value == chosen) for each in values
        ]
        if chosen and not any(choice.chosen for choice in made[name]):
            made[name].append(Choice(value=chosen, label=chosen, jobs=None, chosen=True))
    return made


# --- unused resources -------------------------------------------------------------------------------------------------

#: Periods offered, in weeks.
_WEEKS = (1, 4, 12, 52)
#: Reasons, in the order of the page.
_PARTS = {
    "unused": "requested but never used",
    **{bucket.value: BUCKET_TEXTS[bucket] for bucket in (Bucket.REDONE, Bucket.RESTART, Bucket.IDLE)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedResourcesRow:
    """A user's week. `share` is the unused part of the GPU-hours, or of the GB-hours if there are no GPUs."""

    week: WeekOfWaste
    share: float
    parts: tuple[tuple[str, Hours], ...]


async def render_waste(page_request: PageRequest) -> Response:
    weeks = page_request.get_number("weeks", 4, 1, 520)
    user = page_request.get_word("user")
    found = await compute_waste(
        page_request.portal_user, page_request.context.provider, clock.wall() - weeks * WEEK, user
    )
    return render(
        "waste.html",
        page_request,
        {
            "title": "Unused resources",
            "rows": [_build_waste_row(week) for week in found.weeks],
            "found": found,
            "weeks": weeks,
            "choices": sorted({*_WEEKS, weeks}),
            "user": user,
            "most": MAX_JOBS,
            "gpus": any(week.held.gpu_hours for week in found.weeks),
        },
    )


def _build_waste_row(week: WeekOfWaste) -> UnusedResourcesRow:
    held, wasted = week.held, week.wasted
    whole, part = (held.gpu_hours, wasted.gpu_hours) if held.gpu_hours else (held.gb_hours, wasted.gb_hours)
    return UnusedResourcesRow(
        week=week,
        share=min(1.0, part / whole) if whole else 0.0,
        parts=tuple((text, week.parts[name]) for name, text in _PARTS.items() if name in week.parts),
    )
