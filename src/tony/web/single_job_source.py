"""One running job, seen from beside its application master: its folder there, and what the master tells."""

from __future__ import annotations

import asyncio
import json
import logging

from tony import clock
from tony.config.secret_names import redact
from tony.dataclass import replace
from tony.errors import RecordError
from tony.history.ended_jobs_index import head_of_report
from tony.history.job_record import read_job
from tony.jobs import am_client
from tony.jobs.log_fetcher import LogFetcher
from tony.jobs.log_names import Selection
from tony.linux.threads import to_thread
from tony.model.codec import from_plain
from tony.model.job_query import JobsPage, Query
from tony.model.job_record import JobRecord
from tony.model.layout import JobFolder
from tony.web.folder_job_view import FolderView
from tony.web.in_memory_query import select_jobs
from tony.web.log_files import FolderLogs
from tony.web.remote_logs import RemoteLogs

#: Seconds for which what was brought of a task's output is as good as new.
_FRESH = 0.5
_log = logging.getLogger(__name__)


class SingleJobSource:
    """As `Source`, of one job."""

    def __init__(self, folder: JobFolder) -> None:
        self._view = MasterView(folder)

    @property
    def title(self) -> str:
        """As `Source`."""
        return self._view.job

    async def jobs(self, query: Query) -> JobsPage:
        """As `Source`."""
        heads = [head_of_report(await self._view.report())]
        return await to_thread(select_jobs, heads, query, clock.wall(), [])

    async def job(self, job: str) -> MasterView | None:
        """As `Source`."""
        return self._view if job == self._view.job else None


class MasterView(FolderView):
    """As `JobView`. What is not in the folder here, the master is asked for."""

    def __init__(self, folder: JobFolder) -> None:
        super().__init__(folder, lambda: am_client.ask_report(folder), is_own=True)
        self._place = folder
        self._known: JobRecord | None = None
        self._brought: dict[str, _Brought] = {}

    async def record(self) -> JobRecord | None:
        """As `JobView`."""
        if self._known is None:
            self._known = await to_thread(_record, self._place)
        return self._known

    def logs(self, task: str) -> FolderLogs:
        """As `JobView`."""
        if task not in self._brought:
            self._brought[task] = _Brought(self, self._place, task)
        return RemoteLogs(self._store, self._logs, task, self._brought[task].bring)


def _record(folder: JobFolder) -> JobRecord | None:
    """Without secrets: the master's own copy has them, until it ends."""
    try:
        record = from_plain(JobRecord, json.loads(folder.secret_job.read_text("utf-8")), ignore_unknown=True)
    except FileNotFoundError:
        return read_job(folder)
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder.secret_job} cannot be read as a job: {error}") from error
    return replace(record, spec=redact(record.spec))


class _Brought:
    """What a task has printed, brought from its executor through the master when somebody looks; one bringer at a time.

    Of a task whose executor has gone there is what was brought before.
    """

    def __init__(self, view: MasterView, folder: JobFolder, task: str) -> None:
        self._view = view
        self._folder = folder
        self._task = task
        self._lock = asyncio.Lock()
        self._at = float("-inf")

    async def bring(self) -> str:
        """Returns when all is here that was printed up to a moment ago; says nothing."""
        async with self._lock:
            if clock.monotonic() - self._at < _FRESH or not self._view.live:
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
            self._at = clock.monotonic()
            return ""
