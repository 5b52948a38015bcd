"""A job seen through its directory, and through its application master while it runs.

The directory is in the user's state directory, or a copy. Data that no longer changes is kept; the event log of a
running job is read on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence, Set
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tony import clock
from tony.errors import UserError
from tony.history import event_log
from tony.history.event_log import EventTail, LogEntry
from tony.history.event_queries import read_events
from tony.history.goodput import GoodputLedger
from tony.history.job_record import read_job, read_summary, record_of
from tony.history.metrics_reader import Metrics, NewestMetrics
from tony.history.timeline import Timeline
from tony.jobs import actions, job_follower, job_output
from tony.jobs.directory.job_logs import JobLogs
from tony.jobs.directory.open_log import LOG_PIECE, OpenLog
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.task_logs import TaskLogs
from tony.jobs.directory.timeline_cache import TimelineCache
from tony.jobs.job_view import JobView
from tony.jobs.log_files import Selection
from tony.jobs.log_lines import LogLine
from tony.jobs.log_parts import LogPart
from tony.jobs.remote.remote_job_files import RemoteJobFiles
from tony.jobs.status import job_status, remote_job_sync
from tony.linux.inotify import ChangeWatch
from tony.linux.thread_pools import OTHERS, USUAL, Lane, get_current_user, to_thread
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import SEGMENT_GLOB, Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.model.web_link import WebLink
from tony.protocol.shared_messages import Stacks
from tony.schedulers import registry
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import join_path

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
#: Seconds for which pages show the same status, regardless of the number of users.
PAGE_STATUS_SECONDS = 1.0
#: Seconds without an event after which to check whether the AM is still alive.
_CHECK_SECONDS = 1.0
#: Seconds after which pages of a job on another machine that reports no steps show newer metrics.
_METRICS_SECONDS = 10.0
#: Memory of a task in a timeline, and memory per byte of the JSON files and of the event log.
_TASK_BYTES = 2000
_FACTOR_OF_JSON = 8
_FACTOR_OF_JOB = 16  # it may have many short texts
_FACTOR_OF_LOG = 3
#: Containers listed per task: the newest.
_MAX_CONTAINERS = 10
#: Files listed per job.
_MAX_FILES = 5000
_NOT_OWN = (
    "Only a portal of the job's own user can do that: this portal does not have the job in its own state directory. "
    "The user can also use the `tony` command."
)
#: Files of a job directory without secrets.
_READABLE_FILES = ("job.json", "summary.json", "am.log", "metrics.db")
_log = logging.getLogger("tony")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a job directory.

    Attributes:
        path: relative to the job directory, with `/`.
        size: in bytes.
        changed: modification time, seconds since 1970.
        readable: whether its content may be downloaded; False for secrets and anything but plain files.
    """

    path: str
    size: int
    changed: float
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContainer:
    """A container of a task, current or earlier.

    Attributes:
        links: web pages of the scheduler about it.
    """

    container: str
    host: str
    links: tuple[WebLink, ...] = ()


class DirectoryReader(Protocol[T_co]):
    """Reads something from a job directory; lower limits apply if the job is not the user's `own`."""

    def __call__(self, folder: JobFolder, /, *, own: bool) -> T_co: ...


class DirectoryJobView(JobView):
    """A job with a directory on this machine.

    Args:
        folder: in the user's state directory, or a copy; no other user can write to it.
        notice: called with messages such as a lost connection.
        load_status: returns the current status of a job without a summary; None: from its AM and its scheduler.
        status_seconds: how long a status counts as current.
        remote: fetches what is on other machines; None: nothing is fetched.
        files: the store and path of the job's files and logs, if not the directory itself.
        refresh: updates the directory with what is written elsewhere.
        is_own: the job is of the state directory of this process's user: its secrets may be read and its AM may be
            called.

    Attributes:
        can_change: True if the job can be changed from here.
    """

    def __init__(
        self,
        folder: JobFolder,
        load_status: Callable[[], Awaitable[JobReport]] | None = None,
        remote: RemoteJobFiles | None = None,
        *,
        notice: Callable[[str], None] = _log.warning,
        status_seconds: float = 0.0,
        files: tuple[LocalStore, str] | None = None,
        refresh: Callable[[], Awaitable[object]] | None = None,
        is_own: bool = True,
    ) -> None:
        self.id = folder.job_id
        self.folder = folder
        self.can_change = is_own
        self._notice = notice
        self._lane = USUAL if is_own else OTHERS
        self._load_report = load_status or partial(job_status.load_report, self.home, self.id)
        self._status_seconds = status_seconds
        self._remote = remote
        self._store, self._path = files or (LocalStore(folder.path), "")
        self._refresh_folder = refresh
        # One task per user, so that no user waits behind the queued requests of another.
        self._status_tasks: dict[str | None, asyncio.Task[JobReport]] = {}
        self._timeline_tasks: dict[str | None, asyncio.Task[tuple[Timeline, GoodputLedger] | None]] = {}
        self._report: JobReport | None = None
        self._weight = 0
        self._reported_at = float("-inf")
        self._record: JobRecord | None = None
        self._timeline = TimelineCache(folder, is_own=is_own)

    @classmethod
    def from_home(cls, home: Home, job_id: str, notice: Callable[[str], None] = _log.warning) -> DirectoryJobView:
        """Return a job of the user's state directory, fetched from other machines whenever it is read."""
        return cls(home.job(job_id), notice=notice, refresh=partial(remote_job_sync.refresh, home, job_id))

    @property
    def home(self) -> Home:
        """The state directory that has the job's directory.

        Raises:
            UserError: the job is not the user's own.
        """
        if not self.can_change:
            raise UserError(_NOT_OWN)
        return self.folder.home

    @property
    def weight(self) -> int:
        """Approximate memory of the cached data, in bytes."""
        return self._weight

    @property
    def live(self) -> bool:
        """True if the job had not ended when last checked."""
        return not (self._report and self._report.state.ended) and not self.folder.summary.exists()

    # --- status -------------------------------------------------------------------------------------------------------

    async def status(self, *, tasks: bool = True) -> JobReport:
        known = self._report
        if known is not None and (known.state.ended or clock.monotonic() - self._reported_at < self._status_seconds):
            return known
        return await (
            _share_task(self._status_tasks, self._load_status) if self._status_seconds else self._load_status()
        )

    async def _load_status(self) -> JobReport:
        report = await self._lane.run(read_summary, self.folder, own=self.can_change) or await self._load_report()
        self._weight = await to_thread(_estimate_memory, self.folder, len(report.tasks))
        self._report, self._reported_at = report, clock.monotonic()
        return report

    def reports(self) -> AsyncGenerator[JobReport, None]:
        """Yield the status of the job, now and after every change, until it has ended.

        Reconnects if the connection breaks. Stopping the iteration does not affect the job.
        """
        return job_follower.iterate_reports(self.home, self.id, self._notice)

    async def await_last_report(self, timeout: float | None) -> JobReport:
        async with asyncio.timeout(timeout), aclosing(self.reports()) as stream:
            async for report in stream:
                last = report
        return last

    # --- what the directory has ---------------------------------------------------------------------------------------

    async def record(self) -> JobRecord | None:
        """Return the resolved job, without secrets; None if it was not kept."""
        if self._record is None:
            self._record = await self._lane.run(read_job, self.folder, own=self.can_change)
        return self._record

    async def task_ids(self) -> Sequence[TaskId]:
        return record_of(self.home, self.id).spec.task_ids

    async def events(self, *, follow: bool = False) -> AsyncGenerator[LogEntry, None]:
        """Yield the events of the job, oldest first.

        Args:
            follow: yield new events until the job has ended.

        Raises:
            RecordError: the event log cannot be read.
            SchedulerError: the job runs in a cluster whose files cannot be read.
        """
        submitter = registry.load_submitter(self.home, record_of(self.home, self.id))
        tail = EventTail(self.folder)
        with ChangeWatch() as changes:
            changes.add(self.folder.path)
            while True:
                is_last = not follow or self.folder.summary.exists()
                await remote_job_sync.refresh(self.home, self.id)
                for entry in tail.read_new():
                    yield entry
                if is_last:
                    return
                try:
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await changes.wait_change()
                except TimeoutError:
                    if not submitter.capabilities.same_host or submitter.am_alive(self.folder) is False:
                        await job_status.load_report(self.home, self.id)

    async def read_events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[LogEntry]:
        """Return up to `most` events in order, those with a number (`LogEntry.seq`) above `after`.

        Args:
            after: if negative, start that many events before the last one.
            kinds: of events (`Event.kind`); empty: all kinds.
        """
        return await self.read_directory(partial(read_events, after=after, most=most, kinds=kinds))

    async def read_directory(self, work: DirectoryReader[T]) -> T:
        """Run blocking work on the directory in one of the threads for it, after an update from elsewhere."""
        await self._refresh()
        return await self._lane.run(work, self.folder, own=self.can_change)

    async def timeline(self) -> Timeline | None:
        """Return the timeline of the tasks, up to now if the job runs; None if the events were not kept."""
        loaded = await self._load_timeline()
        return loaded and loaded[0]

    async def goodput(self) -> GoodputLedger | None:
        """Return where the time went; None if the events were not kept."""
        loaded = await self._load_timeline()
        return loaded and loaded[1]

    async def _load_timeline(self) -> tuple[Timeline, GoodputLedger] | None:
        record = await self.record()
        if record is None:
            return None
        await self._refresh()
        # One thread per user at a time: concurrent requests wait here instead of occupying threads.
        work = partial(self._lane.run, self._timeline.load, record, not self.live)
        return await _share_task(self._timeline_tasks, work)

    async def query_metrics(self, work: Callable[[Metrics], T]) -> T | None:
        """Run blocking work on the open metrics; return None if there are none or they cannot be read."""
        newest, _ = await asyncio.gather(self._fetch_newest_metrics(), self._refresh())
        return await self._lane.run(self._query_metrics, work, newest)

    async def _refresh(self) -> None:
        if self._refresh_folder is not None:
            await self._refresh_folder()
        if (remote := self._remote) and (self.live or (remote.newest_metrics and not remote.is_complete)):
            await remote.refresh()

    async def _fetch_newest_metrics(self) -> NewestMetrics | None:
        """Return metrics of a job on other machines that may be newer than its file; None if there are none."""
        if self._remote is None:
            return None
        return await self._remote.fetch_newest_metrics() if self.live else self._remote.newest_metrics

    def _query_metrics(self, work: Callable[[Metrics], T], newest: NewestMetrics | None) -> T | None:
        with Metrics(self.folder.metrics, own=self.can_change, newest=newest) as metrics:
            return work(metrics) if metrics.known else None

    async def files(self) -> Sequence[RecordFile]:
        """Return the files of the job directory by path; a few thousand at most."""
        return await self._lane.run(self._files)

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        """Return the content of a file in chunks; None if it does not exist or is not `readable`."""
        files = {file.path for file in await self.files() if file.readable}
        descriptor = await self._lane.run(self._open_file, path) if path in files else None
        if descriptor is None:
            return None
        return _content(descriptor, self._lane, masked=path != self.folder.metrics.name)

    def _files(self) -> list[RecordFile]:
        found = [*self._list_folder("", _is_readable)]
        found += self._list_folder("logs", lambda name: True)
        return sorted(found, key=lambda file: file.path)[:_MAX_FILES]

    def _list_folder(self, folder: str, readable: Callable[[str], bool]) -> Iterator[RecordFile]:
        for item in self._store.list_files(join_path(self._path, folder)):
            if not item.name.startswith("."):
                yield RecordFile(
                    path=join_path(folder, item.name),
                    size=item.size,
                    changed=item.changed,
                    readable=readable(item.name),
                )

    def _open_file(self, path: str) -> int | None:
        try:
            return self._store.open(join_path(self._path, path))
        except OSError:
            return None

    # --- changes of what is shown -------------------------------------------------------------------------------------

    async def list_announced_folders(self, shown: ShownFiles) -> Sequence[Path]:
        """Return the folders in which every change of the shown files can be noticed; empty if that is not certain."""
        if self._refresh_folder is not None or (self._remote is not None and not await self._remote.is_local()):
            return ()
        return [self.folder.path] if shown.task is None else [self.folder.path, self.folder.logs]

    async def read_digest(self, shown: ShownFiles) -> str:
        """Return a text that differs after any change of the shown files, and of metrics that are newer than these."""
        newest = await self._fetch_newest_metrics() if shown.metrics else None
        await self._refresh()
        files = await self._lane.run(self._read_digest, shown)
        return f"{files}-{_build_version(newest)}" if newest else files

    def _read_digest(self, shown: ShownFiles) -> str:
        items = [*LocalStore(self.folder.path).list()]
        if shown.task is not None:
            items += self._store.list_files(join_path(self._path, self.folder.logs.name), shown.log_prefix)
        return shown.digest(items)

    @asynccontextmanager
    async def follow_output(self, shown: ShownFiles) -> AsyncIterator[None]:
        """Copy shown output of other machines while it is printed, as long as the context lasts."""
        if self._remote is None or shown.task is None:
            yield
        else:
            async with self._remote.follow_output(shown.task):
                yield

    # --- output and links ---------------------------------------------------------------------------------------------

    def output(
        self, selection: Selection, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[Sequence[LogLine], None]:
        return job_output.iterate_lines(self.home, self.id, selection, self._notice, follow=follow, keep=tail)

    def task_logs(self, task: str) -> TaskLogs:
        """Return the output of one task by offset."""
        fetch = None if self._remote is None else partial(self._remote.fetch_output, task)
        return TaskLogs(self._store, join_path(self._path, "logs"), task, lane=self._lane, fetch=fetch)

    def job_logs(self) -> JobLogs:
        """Return the output of all tasks, merged."""
        return JobLogs(
            store=self._store,
            folder=join_path(self._path, self.folder.logs.name),
            lane=self._lane,
            fetch=lambda task: self.task_logs(task).explain_missing(),
        )

    async def links(self) -> Sequence[WebLink]:
        """Return links to the scheduler's web pages about the job; empty if the scheduler has none.

        Raises:
            TonyError: the addresses cannot be determined.
        """
        return await self._remote.find_links() if self._remote is not None else ()

    async def containers(self, task: str) -> Sequence[TaskContainer]:
        """Return the containers of a task, newest first; empty if the scheduler has no pages about containers.

        Raises:
            TonyError: the addresses of the pages cannot be determined.
        """
        line = await self.timeline() if self._remote is not None else None
        if self._remote is None or line is None:
            return ()
        hosts = dict(line.held.get(task, ())[-_MAX_CONTAINERS:])
        links = await self._remote.find_container_links(hosts)
        return [
            TaskContainer(container=each, host=host, links=tuple(links.get(each, ()))) for each, host in hosts.items()
        ][::-1]

    # --- changes: if a portal user is the actor, the caller has checked the permission --------------------------------

    async def kill(self, *, now: bool = False, actor: str = "") -> JobReport:
        """Kill the job; return as soon as it is stopping. Does nothing if it has ended.

        Args:
            now: without the grace period for programs.
            actor: who kills it, for its events; default: the user of this process.

        Returns:
            The status of the job just before.

        Raises:
            ConnectionFailedError: its application master is running, but does not answer.
        """
        report = await actions.kill(self.home, self.id, now=now, actor=actor)
        self.forget_status()
        return report

    async def restart(self, actor: str = "") -> JobReport:
        report = await actions.restart(self.home, self.id, actor)
        self.forget_status()
        return report

    def stacks(self, *tasks: TaskId | str, actor: str = "") -> AsyncGenerator[Stacks, None]:
        return actions.request_stacks(self.home, self.id, tasks, actor)

    async def set_log_level(self, level: str, actor: str = "") -> JobReport:
        return await actions.set_log_level(self.home, self.id, level, actor)

    def forget_status(self) -> None:
        """Let the next `status` be a fresh one."""
        self._reported_at = float("-inf")


def _build_version(newest: NewestMetrics) -> str:
    """Return a text that changes as often as the metrics file of a local job: more often if steps are reported."""
    return f"{newest.now if newest.progress else newest.now // _METRICS_SECONDS}"


def _estimate_memory(folder: JobFolder, tasks: int) -> int:
    """Estimate the memory of a job's report and timeline, in bytes, from the size of its files."""
    size = tasks * _TASK_BYTES
    logs = [(path, _FACTOR_OF_LOG) for path in event_log.segments(folder.path)]
    for path, factor in ((folder.job, _FACTOR_OF_JOB), (folder.summary, _FACTOR_OF_JSON), *logs):
        with contextlib.suppress(OSError):
            size += factor * path.lstat().st_size
    return size


async def _share_task(tasks: dict[str | None, asyncio.Task[T]], work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Wait for the current user's task; start it if none is running."""
    user = get_current_user()
    task = tasks.get(user)
    if task is None:
        task = tasks[user] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: tasks.pop(user, None))
    return await asyncio.shield(task)


def _is_readable(name: str) -> bool:
    return name in _READABLE_FILES or fnmatchcase(name, SEGMENT_GLOB)


async def _content(descriptor: int, lane: Lane, *, masked: bool) -> AsyncIterator[bytes]:
    log = OpenLog([LogPart(descriptor)])
    read = log.read_masked if masked else log.read_bytes
    try:
        offset = 0
        while data := await lane.run(read, offset, LOG_PIECE):
            yield data
            offset += len(data)
    finally:
        os.close(descriptor)
