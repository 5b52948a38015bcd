"""`/metrics`: the jobs that run, for Prometheus. Whoever collects is asked who they are, as everybody.

Where one job is served alone, its charts have the same address: a browser, which asks for HTML, gets these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tony.errors import TonyError
from tony.history.metrics_reader import Metrics
from tony.history.prometheus_text import CONTENT_TYPE, JobSnapshot, exposition
from tony.linux.threads import to_thread
from tony.model.job_query import Query
from tony.web.authorization import AccessDenied, AuthBackend, PortalAction, PortalUser
from tony.web.job_source import Source

#: Where it is.
PATH = "/metrics"
#: Jobs of one answer, and of these, those that are looked at together.
MOST_JOBS, _TOGETHER = 500, 8


def wants_text(request: Request) -> bool:
    """Whether it is a program that collects, no browser."""
    return "text/html" not in request.headers.get("accept", "")


async def answer(request: Request) -> Response:
    """All that run, and may be seen by who asks."""
    state = request.app.state
    gate: AuthBackend = state.gate
    visitor = await gate.visitor(request)
    if isinstance(visitor, AccessDenied):
        return PlainTextResponse(f"{visitor.reason}\n", visitor.status)
    seen = await _seen(state.source, visitor, state.only)
    text = await to_thread(exposition, seen)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


async def _seen(source: Source, visitor: PortalUser, only: str) -> Sequence[JobSnapshot]:
    ids = [only]
    if not only:
        query = Query(state="active", readers=visitor.readers, most=MOST_JOBS)
        ids = [head.job for head in (await source.jobs(query)).heads if visitor.may(PortalAction.SEE, head)]
    turns = asyncio.Semaphore(_TOGETHER)

    async def look(job: str) -> JobSnapshot | None:
        async with turns:
            return await _look(source, job, visitor)

    found = await asyncio.gather(*(look(job) for job in ids))
    return [each for each in found if each]


async def _look(source: Source, job: str, visitor: PortalUser) -> JobSnapshot | None:
    """One job; None if its record cannot be read."""
    try:
        view = await source.job(job)
        if view is None:
            return None
        report, record = await view.report(), await view.record()
        if not visitor.may(PortalAction.SEE, report, record):
            return None
        metrics = await view.metrics()
    except TonyError:
        return None
    if metrics is None:
        return JobSnapshot(report=report)
    return JobSnapshot(report=report, latest=await to_thread(_newest, metrics))


def _newest(metrics: Metrics) -> dict[str, dict[str, float]]:
    with metrics:
        return {task: dict(series) for task, series in metrics.newest().items()}
