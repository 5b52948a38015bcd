"""The one running job of an application master, read from its directory there and from the AM's socket."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

from tony import clock
from tony.config.secret_masking import redact
from tony.errors import RecordError
from tony.history.ended_jobs_index import head_of_report
from tony.history.job_record import read_job
from tony.jobs import am_client
from tony.jobs.log_fetcher import LogFetcher
from tony.jobs.log_names import Selection
from tony.linux.thread_pools import to_thread
from tony.model.codec import from_plain
from tony.model.job_query import JobsPage, Query
from tony.model.layout import JobFolder
from tony.model.submission_record import JobRecord
from tony.web.folder_job_view import FolderView
from tony.web.in_memory_query import select_jobs
from tony.web.log_files import FolderLogs
from tony.web.remote_logs import RemoteLogs

#: How long fetched output of a task counts as current.
_FETCH_INTERVAL_SECONDS = 0.5
_log = logging.getLogger(__name__)


class SingleJobSource:
    """The `Source` with one job."""

    def __init__(self, folder: JobFolder) -> None:
        self._view = AmJobView(folder)

    @property
    def title(self) -> str:
        return self._view.job

    async def jobs(self, query: Query) -> JobsPage:
        heads = [head_of_report(await self._view.report())]
        return await to_thread(select_jobs, heads, query, clock.wall(), [])

    async def job(self, job: str) -> AmJobView | None:
        return self._view if job == self._view.job else None


class AmJobView(FolderView):
    """The `ServedJob` next to the AM. Task output that is not in the directory is fetched through the AM."""

    def __init__(self, folder: JobFolder) -> None:
        super().__init__(folder, lambda: am_client.ask_report(folder), is_own=True)
        self._fetchers: dict[str, _OutputFetcher] = {}

    async def record(self) -> JobRecord | None:
        if self._record is None:
            self._record = await to_thread(_read_record, self._folder)
        return self._record

    def logs(self, task: str) -> FolderLogs:
        if task not in self._fetchers:
            self._fetchers[task] = _OutputFetcher(self, self._folder, task)
        return RemoteLogs(self._store, self._logs, task, self._fetchers[task].fetch)


def _read_record(folder: JobFolder) -> JobRecord | None:
    """Return the resolved job with secrets redacted: the AM's copy contains them while the AM runs."""
    try:
        record = from_plain(JobRecord, json.loads(folder.secret_job.read_text("utf-8")), ignore_unknown=True)
    except FileNotFoundError:
        return read_job(folder)
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder.secret_job} cannot be read as a job: {error}") from error
    return replace(record, spec=redact(record.spec))


class _OutputFetcher:
    """Fetches a task's output from its executor through the AM, on demand; one fetch at a time.

    If the executor has exited, the output fetched so far remains available.
    """

    def __init__(self, view: AmJobView, folder: JobFolder, task: str) -> None:
        self._view = view
        self._folder = folder
        self._task = task
        self._lock = asyncio.Lock()
        self._fetched_at = float("-inf")

    async def fetch(self) -> str:
        """Fetch the output up to `_FETCH_INTERVAL_SECONDS` ago. Returns an empty string: nothing is missing."""
        async with self._lock:
            if clock.monotonic() - self._fetched_at < _FETCH_INTERVAL_SECONDS or not self._view.live:
                return ""
            record = await self._view.record()
            if record is None:
                return ""
            selection = Selection(tasks=frozenset({self._task}))
            logs = LogFetcher(self._folder, record, None, selection, _log.warning, wait=False)
            logs.start()
            try:
                await logs.finished(look=False)
            finally:
                await logs.close()
            self._fetched_at = clock.monotonic()
            return ""
