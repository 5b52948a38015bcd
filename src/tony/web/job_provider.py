"""The job provider of pages and API: its interface, and the one of a single running job, next to its AM.

The portal's provider is `tony.portal.indexed_jobs`. All methods are asynchronous and do blocking work in threads
(`linux/thread_pools.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from tony.errors import RecordError
from tony.history.job_record import read_job
from tony.jobs import am_client
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.task_logs import TaskLogs
from tony.jobs.directory.view import PAGE_STATUS_SECONDS, DirectoryJobView
from tony.jobs.log_files import Selection, select_followed
from tony.jobs.remote.log_fetcher import LogFetcher
from tony.jobs.remote.shared_fetch import SharedFetch
from tony.jobs.remote.shared_log_fetchers import SharedLogFetchers
from tony.linux.thread_pools import to_thread
from tony.model.codec import from_plain
from tony.model.ids import TaskId
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import head_of_report
from tony.model.masking import redact
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.client_messages import KillJob, RestartJob
from tony.protocol.shared_messages import SetLogLevel, Stacks

#: How long fetched output of a task counts as current.
_FETCH_INTERVAL_SECONDS = 0.5
#: How long a page waits for it.
_FETCH_TIMEOUT_SECONDS = 30.0
_log = logging.getLogger(__name__)


class JobProvider(Protocol):
    """A job provider: many jobs, or a single one."""

    @property
    def title(self) -> str:
        """A few words that describe these jobs, for pages."""

    async def list_jobs(self, query: Query) -> JobsPage:
        """Return a page of the matching jobs.

        Raises:
            ValueError: `query.after` is not a page cursor.
        """

    async def find_job(self, job: str) -> DirectoryJobView | None:
        """Return a job by its full id; None if there is no such job."""


class SingleJobProvider:
    """The `JobProvider` with one job."""

    def __init__(self, folder: JobFolder) -> None:
        self._view = AmJobView(folder)

    @property
    def title(self) -> str:
        return self._view.id

    async def list_jobs(self, query: Query) -> JobsPage:
        heads = [head_of_report(await self._view.status())]
        found = tuple(head for head in heads if query.matches(head))
        return JobsPage(heads=found, total=len(found))

    async def find_job(self, job: str) -> AmJobView | None:
        return self._view if job == self._view.id else None


class AmJobView(DirectoryJobView):
    """The `DirectoryJobView` next to the AM. Task output that is not in the directory is fetched through the AM."""

    def __init__(self, folder: JobFolder) -> None:
        super().__init__(folder, partial(am_client.request_report, folder), status_seconds=PAGE_STATUS_SECONDS)
        self._outputs: dict[str, SharedFetch] = {}
        self._followed = SharedLogFetchers()

    async def record(self) -> JobRecord | None:
        if self._record is None:
            self._record = await to_thread(_read_record, self.folder)
        return self._record

    def task_logs(self, task: str) -> TaskLogs:
        return TaskLogs(self._store, self.folder.logs.name, task, fetch=partial(self._fetch_output, task))

    async def _fetch_output(self, task: str) -> str:
        """Fetch a task's output, unless it is fresh. Returns an empty string: nothing is missing."""
        if self.live:
            output = self._outputs.setdefault(task, SharedFetch())
            await output.run(partial(self._fetch_from_executor, task), _FETCH_INTERVAL_SECONDS, _FETCH_TIMEOUT_SECONDS)
        return ""

    async def _fetch_from_executor(self, task: str) -> str:
        """Fetch a task's output through the AM; if its executor has exited, what was fetched so far remains."""
        record = await self.record()
        if record is not None:
            selection = Selection(tasks=frozenset({task}))
            async with LogFetcher(self.folder, record, None, selection, _log.warning, wait=False) as logs:
                await logs.wait_until_finished()
        return ""

    @asynccontextmanager
    async def follow_output(self, shown: ShownFiles) -> AsyncIterator[None]:
        record = await self.record()
        if record is None or shown.task is None:
            yield
            return
        selection = Selection(tasks=select_followed(record.spec.task_ids, shown.task))
        create_fetcher = partial(LogFetcher, self.folder, record, None, selection, _log.warning, wait=True)
        async with self._followed.follow(shown.task, create_fetcher):
            yield

    async def kill(self, *, now: bool = False, actor: str = "") -> JobReport:
        report = await self.status()
        await am_client.send_command(self.folder, KillJob(actor=actor, now=now))
        self.forget_status()
        return report

    async def restart(self, actor: str = "") -> JobReport:
        report = await self.status()
        await am_client.send_command(self.folder, RestartJob(actor=actor))
        self.forget_status()
        return report

    def stacks(self, *tasks: TaskId | str, actor: str = "") -> AsyncGenerator[Stacks, None]:
        return am_client.request_stacks(self.folder, actor, [*map(str, tasks)])

    async def set_log_level(self, level: str, actor: str = "") -> JobReport:
        await am_client.send_command(self.folder, SetLogLevel(level=level, actor=actor))
        return await self.status()


def _read_record(folder: JobFolder) -> JobRecord | None:
    """Return the resolved job with secrets redacted: the AM's copy contains them while the AM runs."""
    try:
        record = from_plain(JobRecord, json.loads(folder.secret_job.read_text("utf-8")), ignore_unknown=True)
    except FileNotFoundError:
        return read_job(folder)
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder.secret_job} cannot be read as a job: {error}") from error
    return replace(record, spec=redact(record.spec))
