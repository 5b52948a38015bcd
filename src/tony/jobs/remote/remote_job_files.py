"""Files of one job on other machines, fetched on demand; and links to its scheduler's own pages.

Requests wait only briefly: a longer transfer continues in the background for later requests.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tony.errors import TonyError, join_lines
from tony.history.job_record import read_job
from tony.history.metrics_reader import NewestMetrics
from tony.jobs.job_metrics import load_newest
from tony.jobs.log_files import Selection, find_log_files, select_followed
from tony.jobs.remote import log_fetcher, scheduler_logs
from tony.jobs.remote.log_fetcher import LogFetcher
from tony.jobs.remote.log_mirror import complete, describe_missing_bytes
from tony.jobs.remote.shared_fetch import SharedFetch
from tony.jobs.remote.shared_log_fetchers import SharedLogFetchers
from tony.jobs.status import remote_job_sync
from tony.linux.thread_pools import Slots, to_thread
from tony.model.log_name import STREAMS
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import LINKEDIN_TONY, JobRecord
from tony.model.web_link import WebLink
from tony.schedulers.client_interface import Submitter

#: Seconds for which fetched output of a running job is fresh.
_FRESH_SECONDS = 1.0
#: Seconds before the output of an ended job is fetched again.
_REPEAT_SECONDS = 15.0
#: Seconds that a request waits for output, and for events.
_OUTPUT_TIMEOUT_SECONDS = 6.0
_EVENTS_TIMEOUT_SECONDS = 1.0
#: Seconds for which the fetched event log of a running job is fresh.
_EVENTS_FRESH_SECONDS = 3.0
#: Seconds for which the newest metrics are fresh: less than the pause between two checks of an open page; and tasks per
#: further second, because each answer has the progress of all.
_METRICS_FRESH_SECONDS = 1.5
_TASKS_PER_FRESH_SECOND = 500
#: Tasks whose output is fetched concurrently: for the portal itself, for all users, for one user.
_CONCURRENT_FETCHES = 4
_CONCURRENT_FETCHES_FOR_USERS = 8
_CONCURRENT_FETCHES_FOR_ONE_USER = 2
_log = logging.getLogger(__name__)


def create_fetch_slots() -> Slots:
    """Return slots that limit concurrent fetches, to be shared by many jobs."""
    return Slots(_CONCURRENT_FETCHES, _CONCURRENT_FETCHES_FOR_USERS, _CONCURRENT_FETCHES_FOR_ONE_USER)


class RemoteJobFiles:
    """The remote files of one job.

    Args:
        home: the user's state directory, for finding clusters.
        folder: the job's local directory: in that state directory, or a copy.
        owner: returns the owner of the original directory in its file system; None for a job of the state directory.
        slots: limit concurrent fetches, so that a hanging cluster blocks no others; None for private ones.
        first: fetches the logs of a task from the original directory; None if there is no other.
        has_all: the scheduler has no further output of an ended job, and no pages about it.

    Attributes:
        newest_metrics: those that were fetched last; None before that.
        is_complete: the last events and metrics of an ended job were fetched.
    """

    def __init__(
        self,
        home: Home,
        folder: JobFolder,
        owner: Callable[[], Awaitable[str]] | None = None,
        slots: Slots | None = None,
        first: Callable[[str], Awaitable[None]] | None = None,
        *,
        has_all: bool = False,
    ) -> None:
        self._home = home
        self._folder = folder
        self._owner = owner
        self._first = first
        self._has_all = has_all
        self._found: tuple[JobRecord, Submitter] | None = None
        self._is_local = False
        self._outputs: dict[str, SharedFetch] = {}
        self._followed = SharedLogFetchers()
        self._final_outputs: set[str] = set()  # tasks whose output was fetched after the end of the job
        self._events = SharedFetch()
        self._metrics = SharedFetch()
        self.newest_metrics: NewestMetrics | None = None
        self.is_complete = False
        self._slots = slots or create_fetch_slots()

    async def fetch_output(self, task: str) -> str:
        """Fetch the output of a task so far.

        Returns:
            What is missing, and why; empty if nothing is.
        """
        output = self._outputs.setdefault(task, SharedFetch())
        fresh_seconds = _REPEAT_SECONDS if task in self._final_outputs else _FRESH_SECONDS
        is_done = await output.run(partial(self._fetch, task), fresh_seconds, _OUTPUT_TIMEOUT_SECONDS)
        return output.result if is_done else "The log is being fetched from the cluster; reload in a moment."

    async def _fetch(self, task: str) -> str:
        notes: list[str] = []
        ended = self._folder.summary.exists()
        if ended:
            self._final_outputs.add(task)
        try:
            if self._first is not None:
                await self._first(task)
            found = await self._find()
            if found is not None:
                await self._fetch_remote(*found, task, notes.append, ended=ended)
                notes.append(await to_thread(self._describe_missing_bytes, task))
        except (TonyError, OSError) as error:
            notes.append(join_lines(error))
        except Exception:  # no caller may be waiting: the error must reach the next request
            _log.exception("fetching the output of %s failed", task)
            notes.append("the log could not be fetched; see the log of the portal or command that shows this")
        return "; ".join(dict.fromkeys(filter(None, notes)))

    def _describe_missing_bytes(self, task: str) -> str:
        logs = self._folder.logs
        return describe_missing_bytes(logs, find_log_files(logs, Selection(tasks=frozenset({task}))))

    async def _fetch_remote(
        self, record: JobRecord, submitter: Submitter, task: str, note: Callable[[str], None], *, ended: bool
    ) -> None:
        """Fetch from the machines where the job ran."""
        if record.tony_version == LINKEDIN_TONY:
            note(f"LinkedIn TonY left the log to YARN: yarn logs -applicationId {record.job_id}")
            return
        if complete(self._folder.logs).issuperset(f"{task} {stream}" for stream in STREAMS):
            return
        selection = Selection(tasks=frozenset({task}))
        async with self._slots.take():
            if self._owner is None:
                await log_fetcher.fetch_current_output(self._home, record, selection, note)
            elif not ended:
                note("the job is running: its output is shown by its own pages, and to its owner by `tony logs`")
            elif not self._has_all:
                owner = await self._owner()
                await scheduler_logs.fetch_ended(self._folder, record, submitter, selection, note, owner)

    async def is_local(self) -> bool:
        """Return True if all files are on this machine."""
        return await self._find() is None

    @asynccontextmanager
    async def follow_output(self, name: str) -> AsyncIterator[None]:
        """Fetch the output of a task, a role or all tasks while it is printed, as long as the context lasts."""
        found = await self._find()
        if found is None or self._owner is not None or self._folder.summary.exists():
            yield
            return
        selection = Selection(tasks=select_followed(found[0].spec.task_ids, name))
        create_fetcher = partial(LogFetcher, self._folder, *found, selection, _log.info, wait=True)
        async with self._followed.follow(name, create_fetcher):
            yield

    async def refresh(self) -> None:
        """Fetch events and metrics of a running job of the state directory, unless they are fresh."""
        if self._owner is None and await self._find() is not None:
            await self._events.run(self._refresh, _EVENTS_FRESH_SECONDS, _EVENTS_TIMEOUT_SECONDS)

    async def _refresh(self) -> str:
        try:
            self.is_complete = await remote_job_sync.refresh(self._home, self._folder.job_id)
        except (TonyError, OSError) as error:
            _log.info("cannot fetch the event log of %s: %s", self._folder.job_id, error)
        return ""

    async def fetch_newest_metrics(self) -> NewestMetrics | None:
        """Fetch the newest metrics of a running job of the state directory from its AM, unless they are fresh.

        The AM stores a copy of its metrics file only now and then.

        Returns:
            What was fetched last; None before that, and if the file itself is up to date.
        """
        found = await self._find() if self._owner is None else None
        if found is None:
            return None
        fresh_seconds = max(_METRICS_FRESH_SECONDS, len(found[0].spec.task_ids) / _TASKS_PER_FRESH_SECOND)
        await self._metrics.run(self._fetch_newest_metrics, fresh_seconds, _EVENTS_TIMEOUT_SECONDS)
        return self.newest_metrics

    async def _fetch_newest_metrics(self) -> str:
        try:
            self.newest_metrics = await load_newest(self._folder) or self.newest_metrics
        except (TonyError, OSError) as error:  # it has not started yet, is restarting or exiting
            _log.debug("cannot fetch the newest metrics of %s: %s", self._folder.job_id, error)
        return ""

    async def find_links(self) -> Sequence[WebLink]:
        """Return links to the scheduler's own pages about the job.

        Raises:
            TonyError: their addresses cannot be determined.
        """
        found = await self._find()
        return await found[1].links(self._folder.job_id, ended=self._folder.summary.exists()) if found else ()

    async def find_container_links(self, containers: Mapping[str, str]) -> Mapping[str, Sequence[WebLink]]:
        """Return links to container logs: container id -> links.

        Args:
            containers: id -> host.

        Raises:
            TonyError: their addresses cannot be determined.
        """
        found = await self._find()
        if found is None or not containers or self._has_all:
            return {}
        user = await self._owner() if self._owner else ""
        ended = self._folder.summary.exists()
        return await found[1].container_links(self._folder.job_id, containers, user=user, ended=ended)

    async def _find(self) -> tuple[JobRecord, Submitter] | None:
        """Return the record and the submitter; None if all files are local."""
        if self._found is None and not self._is_local:
            record = await to_thread(read_job, self._folder, own=self._owner is None)
            if record is None:
                return None
            submitter = await to_thread(log_fetcher.find_remote_submitter, self._home, record)
            if submitter is None:
                self._is_local = True
            else:
                self._found = record, submitter
        return self._found
