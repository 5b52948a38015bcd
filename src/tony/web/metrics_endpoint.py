"""`/metrics`: the running jobs in Prometheus text format. Scrapers must authenticate like every other client.

A job's own server uses the same address for its charts: a browser, which accepts HTML, gets those instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tony.errors import TonyError
from tony.history.metrics_reader import Metrics
from tony.history.prometheus_text import CONTENT_TYPE, JobSnapshot, exposition
from tony.linux.thread_pools import to_thread
from tony.model.job_query import Query
from tony.web.authorization import AccessDenied, PortalAction, User
from tony.web.job_provider import JobProvider
from tony.web.server_context import ServerContext

PATH = "/metrics"
#: Jobs in one response.
MAX_JOBS = 500
#: Jobs that are read concurrently.
_CONCURRENT_JOBS = 8


def wants_text(request: Request) -> bool:
    """Return True for a scraper, False for a browser."""
    return "text/html" not in request.headers.get("accept", "")


async def answer(context: ServerContext, request: Request) -> Response:
    """Return the metrics of all running jobs that the user may see."""
    portal_user = await context.auth.authenticate(request)
    if isinstance(portal_user, AccessDenied):
        return PlainTextResponse(f"{portal_user.reason}\n", portal_user.status)
    snapshots = await _collect_snapshots(context.provider, portal_user, context.only)
    text = await to_thread(exposition, snapshots)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


async def _collect_snapshots(provider: JobProvider, portal_user: User, only: str) -> Sequence[JobSnapshot]:
    ids = [only]
    if not only:
        query = Query(state="active", readers=portal_user.readers, most=MAX_JOBS)
        ids = [head.job for head in (await provider.list_jobs(query)).heads if portal_user.may(PortalAction.SEE, head)]
    slots = asyncio.Semaphore(_CONCURRENT_JOBS)

    async def read(job: str) -> JobSnapshot | None:
        async with slots:
            return await _read_job(provider, job, portal_user)

    found = await asyncio.gather(*(read(job) for job in ids))
    return [snapshot for snapshot in found if snapshot]


async def _read_job(provider: JobProvider, job: str, portal_user: User) -> JobSnapshot | None:
    """Return the snapshot of a job; None if its directory cannot be read."""
    try:
        view = await provider.find_job(job)
        if view is None:
            return None
        report, record = await view.status(), await view.record()
        if not portal_user.may(PortalAction.SEE, report, record):
            return None
        latest = await view.query_metrics(Metrics.read_newest)
    except TonyError:
        return None
    return JobSnapshot(report=report, latest=latest or {})
