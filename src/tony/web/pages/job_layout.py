"""Parts shared by the pages of one job: header, tabs, pager, partial results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tony import clock
from tony.errors import TonyError, join_lines
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction
from tony.web.request import PageRequest

T = TypeVar("T")

#: How long a page waits for links to the scheduler's pages; once per job, the cluster's configuration is read for them.
_LINKS_TIMEOUT_SECONDS = 1.0
#: The tabs of a job: path, name.
PARTS = (
    ("", "Overview"),
    ("tasks", "Tasks"),
    ("logs", "Logs"),
    ("metrics", "Metrics"),
    ("events", "Events"),
    ("advice", "Advice"),
    ("settings", "Configuration"),
    ("files", "Files"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTab:
    name: str
    href: str
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerLink:
    """A link of a pager; without `href`, the current position."""

    label: str
    href: str = ""
    rel: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part of a page that cannot be read; the page shows why, and its other parts."""

    why: str


async def await_part(part: Awaitable[T]) -> T | Unknown:
    """Await a part of a page; return `Unknown` with the reason if it cannot be read."""
    try:
        return await part
    except TonyError as error:
        return Unknown(join_lines(error))


async def await_with_timeout(part: Awaitable[T], timeout_seconds: float) -> T | Unknown | None:
    """Await a part as `await_part` does; return None after the timeout; the work continues for the next request."""
    work = asyncio.ensure_future(await_part(part))
    _WORK.add(work)
    work.add_done_callback(_WORK.discard)
    done, _ = await asyncio.wait([work], timeout=timeout_seconds)
    return work.result() if done else None


_WORK: set[asyncio.Future[Any]] = set()


async def build_frame(
    page_request: PageRequest, view: DirectoryJobView, report: JobReport, part: str
) -> dict[str, object]:
    """Return the template values of the header of a job's page.

    Args:
        part: path of the current tab in `PARTS`; any other text for pages outside the tabs.
    """
    record = await await_part(view.record())
    links = await await_with_timeout(view.links(), _LINKS_TIMEOUT_SECONDS)
    parts = [
        JobTab(name=name, href=page_request.links.to_job(report.job, path), here=path == part) for path, name in PARTS
    ]
    return {
        "title": report.name,
        "job": report,
        "parts": parts,
        "part": part,
        "now": clock.wall(),
        "live": not report.state.ended,
        "boards": page_request.context.boards,
        "cluster": [] if isinstance(links, Unknown) else links,
        "record": record if isinstance(record, JobRecord) else None,
        "may_change": not report.state.ended
        and view.can_change
        and page_request.portal_user.may(
            PortalAction.CHANGE, report, record if isinstance(record, JobRecord) else None
        ),
    }


def count_states(tasks: Sequence[TaskReport]) -> dict[TaskState, int]:
    """Return the number of tasks in each state, in the order of a task's states."""
    found = dict.fromkeys(TaskState, 0)
    for task in tasks:
        found[task.state] += 1
    return {state: number for state, number in found.items() if number}


def build_pager(
    page_request: PageRequest, path: str, words: dict[str, str], start: int, most: int, total: int
) -> list[PagerLink]:
    """Return a pager of a numbered list; `from` in the address is the index of the first entry shown."""

    def to(first: int) -> str:
        return page_request.links.to_page(path, {**words, "from": str(first) if first else ""})

    if total <= most and not start:
        return []
    made = [PagerLink(label=f"{start + 1:,} – {min(total, start + most):,} of {total:,}".replace(",", "\u202f"))]
    if start:
        made.insert(0, PagerLink(label="Previous", href=to(max(0, start - most)), rel="prev"))
    if start + most < total:
        made.append(PagerLink(label="Next", href=to(start + most), rel="next"))
    return made
