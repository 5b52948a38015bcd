"""Compare two jobs, for the page and the API."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from tony.errors import TonyError
from tony.jobs.comparison import ComparedFacts, Comparison, compared
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.web.job_source import ServedJob

T = TypeVar("T")


async def comparison(first: tuple[ServedJob, JobReport], second: tuple[ServedJob, JobReport]) -> Comparison:
    """Compare two jobs; a part that cannot be read counts as unknown."""
    a, b = await _load_facts(*first), await _load_facts(*second)
    return await to_thread(compared, a, b)


async def _load_facts(view: ServedJob, report: JobReport) -> ComparedFacts:
    record, goodput = await _or_none(view.record()), await _or_none(view.goodput())
    return ComparedFacts(report=report, record=record, goodput=goodput, metrics=await _or_none(view.metrics()))


async def _or_none(part: Awaitable[T | None]) -> T | None:
    try:
        return await part
    except TonyError:
        return None
