"""Two jobs of a source side by side, for the page and the API."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from tony.errors import TonyError
from tony.jobs.comparison import Comparison, Seen, compared
from tony.linux.threads import beside
from tony.model.job_report import JobReport
from tony.web.job_source import JobView

T = TypeVar("T")


async def comparison(first: tuple[JobView, JobReport], second: tuple[JobView, JobReport]) -> Comparison:
    """Compares what can be read of them; a part that cannot be is not known."""
    a, b = await _seen(*first), await _seen(*second)
    return await beside(compared, a, b)


async def _seen(view: JobView, report: JobReport) -> Seen:
    record, goodput = await _or_none(view.record()), await _or_none(view.goodput())
    return Seen(report=report, record=record, goodput=goodput, metrics=await _or_none(view.metrics()))


async def _or_none(part: Awaitable[T | None]) -> T | None:
    try:
        return await part
    except TonyError:
        return None
