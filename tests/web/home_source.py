"""The jobs of one state directory, for its own user. Scans every job directory: fast enough for thousands of jobs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from tests.web.in_memory_query import select_jobs
from tony import clock
from tony.errors import TonyError
from tony.history.directory_scan import scan
from tony.history.ended_jobs_index import head_of_report
from tony.jobs.directory.view import PAGE_STATUS_SECONDS, DirectoryJobView
from tony.jobs.remote.remote_job_files import RemoteJobFiles
from tony.linux.thread_pools import to_thread
from tony.model.ids import JOB_ID
from tony.model.job_query import JobsPage, Query
from tony.model.job_summary import JobHead
from tony.model.layout import Home
from tony.model.states import JobState

#: Job views that are cached.
_MAX_CACHED_VIEWS = 32
#: How long a list waits for the report of a running AM.
_REPORT_TIMEOUT_SECONDS = 2.0
#: AMs that are queried concurrently.
_CONCURRENT_REPORTS = 50


class HomeSource:
    """The `JobProvider` of one state directory.

    Args:
        user: owner of the state directory, as shown on pages.
    """

    def __init__(self, home: Home, user: str) -> None:
        self._home = home
        self._user = user
        self._views: OrderedDict[str, DirectoryJobView] = OrderedDict()
        self._slots = asyncio.Semaphore(_CONCURRENT_REPORTS)

    @property
    def title(self) -> str:
        return f"jobs of {self._user}"

    async def list_jobs(self, query: Query) -> JobsPage:
        listing = await to_thread(scan, self._home)
        problems: list[str] = []
        running = await asyncio.gather(*(self._refresh(head, problems) for head in listing.open))
        damaged = [_damaged_head(job, why) for job, why in listing.unreadable.items()]
        heads = (*listing.ended, *running, *damaged)
        return await to_thread(select_jobs, heads, query, clock.wall(), problems)

    async def find_job(self, job: str) -> DirectoryJobView | None:
        if not JOB_ID.fullmatch(job) or not await to_thread(self._home.job(job).job.exists):
            return None
        return self._view(job)

    def _view(self, job: str) -> DirectoryJobView:
        view = self._views.get(job)
        if view is None:
            folder = self._home.job(job)
            remote = RemoteJobFiles(self._home, folder)
            view = self._views[job] = DirectoryJobView(folder, None, remote, status_seconds=PAGE_STATUS_SECONDS)
        self._views.move_to_end(job)
        while len(self._views) > _MAX_CACHED_VIEWS:
            self._views.popitem(last=False)
        return view

    async def _refresh(self, head: JobHead, problems: list[str]) -> JobHead:
        async with self._slots:
            try:
                async with asyncio.timeout(_REPORT_TIMEOUT_SECONDS):
                    return head_of_report(await self._view(head.job).status())
            except TimeoutError:
                problems.append(
                    f"{head.job}: the application master does not respond; the job is shown as it was submitted."
                )
            except TonyError as error:
                problems.append(f"{head.job}: {' '.join(str(error).split())}")
        return head


def _damaged_head(job: str, why: str) -> JobHead:
    return JobHead(
        job=job,
        name=job,
        state=JobState.SUBMITTED,
        user="",
        scheduler="",
        framework="",
        tasks=None,
        submitted=0.0,
        ended=None,
        exit_code=None,
        reason="",
        damaged=why,
    )
