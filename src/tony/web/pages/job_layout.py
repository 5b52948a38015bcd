"""What the pages of one job have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from tony import clock
from tony.dataclass import dataclass
from tony.errors import TonyError
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.web.authorization import PortalAction
from tony.web.job_source import JobView
from tony.web.request import PageRequest

T = TypeVar("T")

#: Seconds that a page waits to know of its scheduler's own, once for each job: a cluster's configuration is read.
_LINKS = 1.0
#: The parts of a job's page: path, name.
PARTS = (
    ("", "Overview"),
    ("tasks", "Tasks"),
    ("metrics", "Metrics"),
    ("events", "Events"),
    ("advice", "Advice"),
    ("settings", "Configuration"),
    ("files", "Files"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTab:
    """One of them."""

    name: str
    href: str
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerLink:
    """A link of a pager; without `href` it says where one is."""

    label: str
    href: str = ""
    rel: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part of a page that cannot be read; the rest is shown."""

    why: str


async def known(part: Awaitable[T]) -> T | Unknown:
    """A part of a page, or why there is none."""
    try:
        return await part
    except TonyError as error:
        return Unknown(" ".join(str(error).split()))


async def await_with_timeout(part: Awaitable[T], patience: float) -> T | Unknown | None:
    """The same; None if it takes longer than `patience` seconds: it is made on, for whoever asks next."""
    work = asyncio.ensure_future(known(part))
    _WORK.add(work)
    work.add_done_callback(_WORK.discard)
    done, _ = await asyncio.wait([work], timeout=patience)
    return work.result() if done else None


_WORK: set[asyncio.Future[Any]] = set()


async def frame(asked: PageRequest, view: JobView, report: JobReport, part: str) -> dict[str, object]:
    """What the head of every page of a job shows.

    Args:
        part: of `PARTS`; something else where none of them is shown.
    """
    record = await known(view.record())
    links = await await_with_timeout(view.links(), _LINKS)
    parts = [JobTab(name=name, href=asked.links.job(report.job, path), here=path == part) for path, name in PARTS]
    return {
        "title": report.name,
        "job": report,
        "parts": parts,
        "part": part,
        "now": clock.wall(),
        "live": not report.state.ended,
        "boards": getattr(asked.request.app.state, "boards", False),
        "cluster": [] if isinstance(links, Unknown) else links,
        "record": record if isinstance(record, JobRecord) else None,
        "may_change": not report.state.ended
        and view.can_change
        and asked.visitor.may(PortalAction.CHANGE, report, record if isinstance(record, JobRecord) else None),
    }


def counts(tasks: Sequence[TaskReport]) -> dict[TaskState, int]:
    """How many tasks are in each state, in the order of a task's life."""
    found = dict.fromkeys(TaskState, 0)
    for task in tasks:
        found[task.state] += 1
    return {state: number for state, number in found.items() if number}


def steps(asked: PageRequest, path: str, words: dict[str, str], start: int, most: int, total: int) -> list[PagerLink]:
    """A pager of what is numbered: `from` in the address is the first that is shown, from 0."""

    def to(first: int) -> str:
        return asked.links.page(path, {**words, "from": str(first) if first else ""})

    if total <= most and not start:
        return []
    made = [PagerLink(label=f"{start + 1:,} – {min(total, start + most):,} of {total:,}".replace(",", "\u202f"))]
    if start:
        made.insert(0, PagerLink(label="Previous", href=to(max(0, start - most)), rel="prev"))
    if start + most < total:
        made.append(PagerLink(label="Next", href=to(start + most), rel="next"))
    return made
