"""One job as shown on pages, read from its directory and its application master.

The data of a finished job does not change and is cached. For a running job, the event log is read incrementally, and
the AM is queried at most once a second, regardless of the number of users.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TypeVar

from tony import clock
from tony.errors import InfraError, OverloadedError, RecordError, UserError
from tony.history import event_log
from tony.history.event_log import LogEntry
from tony.history.event_tail import EventTail
from tony.history.goodput import GoodputLedger, ledger
from tony.history.job_record import read_job, read_summary
from tony.history.metrics_reader import Metrics, open_metrics
from tony.history.timeline import Timeline, TimelineReader, with_checkpoints
from tony.jobs import am_client
from tony.jobs.remote_record import RemoteRecord
from tony.linux.thread_pools import USUAL, Lane, current_user, lock_held, to_thread
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.messages import Stacks
from tony.schedulers.interface import WebLink
from tony.storage.stores.file_store import joined
from tony.storage.stores.local_store import LocalStore
from tony.web.job_source import LOG_PIECE, RecordFile, TaskContainer
from tony.web.log_files import FolderLogs
from tony.web.remote_logs import RemoteLogs
from tony.web.secret_patterns import MARGIN, PRINTED
from tony.web.thread_lanes import OTHERS

T = TypeVar("T")
#: How long the report of a running AM counts as current.
_REPORT_SECONDS = 1.0
#: A timeline counts as current for this many times the seconds that it took to build.
_TIMELINE_COST_FACTOR = 20.0
#: Bytes per read when an event log is read backwards from its end.
_BLOCK = 64 << 10
#: Memory of a task in a timeline, and memory per byte of the JSON files and of the event log.
_TASK_BYTES = 2000
_FACTOR_OF_JSON = 8
_FACTOR_OF_JOB = 16  # it may have many short texts
_FACTOR_OF_LOG = 3
#: Time limit for reading an event log in one request, and events between two checks of the clock.
_LONGEST_READ_SECONDS = 20.0
_EVENTS_PER_CLOCK_CHECK = 1000
#: Maximum bytes of an event log in one response.
_MOST_EVENT_BYTES = 16 << 20
#: Containers listed per task: the newest.
_MOST_CONTAINERS = 10
#: Files listed per job.
_MOST_FILES = 5000
_NOT_OWN = (
    "Only a portal of the job's own user can do that: this portal does not have the job in its own state directory. "
    "The user can also use the `tony` command."
)
#: Files of a job directory without secrets.
_READABLE_FILES = ("job.json", "summary.json", "am.log", "metrics.db")


class FolderView:
    """The `ServedJob` of a job directory.

    Args:
        folder: the directory, in the user's state directory or a copy; no other user can write to it.
        fetch_report: returns the current report, from the AM or the scheduler.
        remote: fetches what is on other machines; None: nothing is fetched.
        files: the store and path of the job's files and logs, if not the directory itself.
        refresh: updates the directory, if it is a copy.
        is_own: the job belongs to the OS user of this process: its secrets may be read and its AM may be called.
    """

    def __init__(
        self,
        folder: JobFolder,
        fetch_report: Callable[[], Awaitable[JobReport]],
        remote: RemoteRecord | None = None,
        *,
        files: tuple[LocalStore, str] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
        is_own: bool = False,
    ) -> None:
        self._folder = folder
        self._is_own = is_own
        self._lane = USUAL if is_own else OTHERS
        self._fetch_report = fetch_report
        self._remote = remote
        self._store, self._path = files or (LocalStore(folder.path), "")
        self._bring = refresh
        # One task per user, so that no user waits behind the queued requests of another.
        self._report_tasks: dict[str | None, asyncio.Task[JobReport]] = {}
        self._timeline_tasks: dict[str | None, asyncio.Task[tuple[Timeline, GoodputLedger] | None]] = {}
        self._report: JobReport | None = None
        self._weight = 0
        self._reported_at = 0.0
        self._record: JobRecord | None = None
        self._timeline = _TimelineCache(folder, is_own=is_own)

    @property
    def job(self) -> str:
        return self._folder.job_id

    @property
    def can_change(self) -> bool:
        return self._is_own

    @property
    def weight(self) -> int:
        """Approximate memory of the cached data, in bytes."""
        return self._weight

    @property
    def live(self) -> bool:
        return not (self._report and self._report.state.ended) and not self._folder.summary.exists()

    async def report(self) -> JobReport:
        known = self._report
        if known is not None and (known.state.ended or clock.monotonic() - self._reported_at < _REPORT_SECONDS):
            return known
        return await _shared(self._report_tasks, self._load_report)

    async def _load_report(self) -> JobReport:
        if self._bring is not None and self.live:
            await self._bring()
        report = await self._lane.run(read_summary, self._folder, own=self._is_own) or await self._fetch_report()
        self._weight = await to_thread(_estimate_memory, self._folder, len(report.tasks))
        self._report, self._reported_at = report, clock.monotonic()
        return report

    async def record(self) -> JobRecord | None:
        if self._record is None:
            self._record = await self._lane.run(read_job, self._folder, own=self._is_own)
        return self._record

    async def events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[LogEntry]:
        await self._refresh()
        return await self._lane.run(_events, self._folder, after, most, kinds, own=self._is_own)

    async def timeline(self) -> Timeline | None:
        loaded = await self._load_timeline()
        return loaded and loaded[0]

    async def goodput(self) -> GoodputLedger | None:
        loaded = await self._load_timeline()
        return loaded and loaded[1]

    async def _load_timeline(self) -> tuple[Timeline, GoodputLedger] | None:
        record = await self.record()
        if record is None:
            return None
        await self._refresh()
        # One thread per user at a time: concurrent requests wait here instead of occupying threads.
        work = partial(self._lane.run, self._timeline.load, record, not self.live, self._open_metrics)
        return await _shared(self._timeline_tasks, work)

    async def metrics(self) -> Metrics | None:
        await self._refresh()
        return await self._lane.run(self._open_metrics)

    async def _refresh(self) -> None:
        if self._bring is not None and self.live:
            await self._bring()
        if self._remote is not None and self.live:
            await self._remote.refresh()

    def _open_metrics(self) -> Metrics | None:
        found = open_metrics(self._folder.metrics, own=self._is_own)
        if found.known:
            return found
        found.close()
        return None

    async def files(self) -> Sequence[RecordFile]:
        return await self._lane.run(self._files)

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        files = {file.path for file in await self.files() if file.readable}
        descriptor = await self._lane.run(self._open_file, path) if path in files else None
        if descriptor is None:
            return None
        return _content(descriptor, self._lane, masked=path != self._folder.metrics.name)

    def logs(self, task: str) -> FolderLogs:
        if self._remote is not None:
            return RemoteLogs(self._store, self._logs, task, partial(self._remote.bring, task), lane=self._lane)
        return FolderLogs(self._store, self._logs, task, lane=self._lane)

    @property
    def _logs(self) -> str:
        return joined(self._path, "logs")

    def _files(self) -> list[RecordFile]:
        found = [*self._list_folder("", _is_readable)]
        found += self._list_folder("logs", lambda name: True)
        return sorted(found, key=lambda file: file.path)[:_MOST_FILES]

    def _list_folder(self, folder: str, readable: Callable[[str], bool]) -> Iterator[RecordFile]:
        for item in self._store.list_files(joined(self._path, folder)):
            if not item.name.startswith("."):
                yield RecordFile(
                    path=joined(folder, item.name), size=item.size, changed=item.changed, readable=readable(item.name)
                )

    def _open_file(self, path: str) -> int | None:
        try:
            return self._store.open(joined(self._path, path))
        except OSError:
            return None

    async def links(self) -> Sequence[WebLink]:
        return await self._remote.links() if self._remote is not None else ()

    async def containers(self, task: str) -> Sequence[TaskContainer]:
        line = await self.timeline() if self._remote is not None else None
        if self._remote is None or line is None:
            return ()
        hosts = dict(line.held.get(task, ())[-_MOST_CONTAINERS:])
        links = await self._remote.container_links(hosts)
        return [
            TaskContainer(container=each, host=host, links=tuple(links.get(each, ()))) for each, host in hosts.items()
        ][::-1]

    # --- changes ------------------------------------------------------------------------------------------------------

    async def stop(self, actor: str) -> None:
        self._check_own()
        await am_client.tell_kill(self._folder, actor, now=False)
        self._forget()

    async def restart(self, actor: str) -> None:
        self._check_own()
        await am_client.tell_restart(self._folder, actor)
        self._forget()

    async def stacks(self, task: str, actor: str) -> Stacks:
        self._check_own()
        stacks = await am_client.ask_stacks(self._folder, actor, task)
        if not stacks.text:
            raise InfraError(stacks.problem)
        return stacks

    async def log_level(self, level: str, actor: str) -> None:
        self._check_own()
        await am_client.tell_log_level(self._folder, level, actor)

    def _check_own(self) -> None:
        if not self.can_change:
            raise UserError(_NOT_OWN)

    def _forget(self) -> None:
        self._reported_at = float("-inf")


def _estimate_memory(folder: JobFolder, tasks: int) -> int:
    """Estimate the memory of a job's report and timeline, in bytes, from the size of its files."""
    size = tasks * _TASK_BYTES
    logs = [(path, _FACTOR_OF_LOG) for path in event_log.segments(folder.path)]
    for path, factor in ((folder.job, _FACTOR_OF_JOB), (folder.summary, _FACTOR_OF_JSON), *logs):
        with contextlib.suppress(OSError):
            size += factor * path.lstat().st_size
    return size


async def _shared(tasks: dict[str | None, asyncio.Task[T]], work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Wait for the current user's task; start it if none is running."""
    user = current_user()
    task = tasks.get(user)
    if task is None:
        task = tasks[user] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: tasks.pop(user, None))
    return await asyncio.shield(task)


class _TimelineCache:
    """The timeline and goodput of an event log, read incrementally by one thread at a time."""

    def __init__(self, folder: JobFolder, *, is_own: bool) -> None:
        self._folder = folder
        self._is_own = is_own
        self._lock = threading.Lock()
        self._reader: TimelineReader | None = None
        self._tail = EventTail(folder)
        self._events = 0
        self._loaded: tuple[Timeline, GoodputLedger] | None = None
        self._is_final = False
        self._current_until = 0.0

    def load(
        self, record: JobRecord, ended: bool, metrics: Callable[[], Metrics | None]
    ) -> tuple[Timeline, GoodputLedger] | None:
        """Return the timeline and goodput so far; None if there are no events."""
        with lock_held(self._lock, f"the event log of {self._folder.job_id} is being read"):
            if self._is_final or clock.monotonic() < self._current_until:
                return self._loaded
            started_at = clock.monotonic()
            if not self._is_own:
                event_log.check_length_of_others(self._folder.path)
            if self._reader is None:
                self._reader = TimelineReader(record)
            for entry in self._tail.new():
                self._reader.take(entry)
                self._events += 1
                if (
                    not self._events % _EVENTS_PER_CLOCK_CHECK
                    and clock.monotonic() - started_at > _LONGEST_READ_SECONDS
                ):
                    raise OverloadedError(
                        f"the event log of {self._folder.job_id} is long: {self._events:,} events read so far. "
                        "Reload to continue."
                    )
            if not self._events:
                return None
            line = self._reader.timeline()
            if not ended:
                line = self._reader.timeline(clock.wall() - line.accepted)
            self._loaded = _with_metrics(line, metrics())
            if ended:
                self._is_final, self._reader = True, None
            # Limits repeated rebuilding to a small share of a core, however large the job.
            cost = clock.monotonic() - started_at
            self._current_until = clock.monotonic() + max(_REPORT_SECONDS, _TIMELINE_COST_FACTOR * cost)
            return self._loaded


def _with_metrics(line: Timeline, metrics: Metrics | None) -> tuple[Timeline, GoodputLedger]:
    if metrics is None:
        return line, ledger(line)
    with metrics:
        line = with_checkpoints(line, [(each.task, each.until, each.step) for each in metrics.checkpoints()])
        return line, ledger(line, metrics)


def _events(folder: JobFolder, after: int, most: int, kinds: Set[str], *, own: bool) -> list[LogEntry]:
    """Read events. Numbers are consecutive over all segments, so unwanted events are only counted, not decoded."""
    if not own:
        event_log.check_length_of_others(folder.path, event_log.LONGEST_LISTED_LOG_OF_OTHERS)
    found: list[LogEntry] = []
    segments = event_log.segments(folder.path)
    words = [f'"{kind}"'.encode() for kind in kinds]
    if after < 0:
        return [entry for entry in _latest(segments, -after) if not kinds or entry.event.kind in kinds][:most]
    number = size = 0
    for attempt, path in enumerate(segments, start=1):
        with event_log.opened(path) as file:
            file.readline(event_log.LONGEST_LINE)
            place = 1
            while event_log.is_whole(f"{path}:{place + 1}", line := file.readline(event_log.LONGEST_LINE)):
                number, place = number + 1, place + 1
                if number > after and (not words or any(word in line for word in words)):
                    entry = event_log.decode_entry(f"{path}:{place}", line, attempt)
                    if kinds and entry.event.kind not in kinds:
                        continue
                    found.append(entry)
                    if len(found) >= most:
                        return found
                    size += len(line)
                    _check_event_bytes(path, size)
    return found


def _check_event_bytes(path: Path, size: int) -> None:
    if size > _MOST_EVENT_BYTES:
        raise RecordError(
            f"{path}: these events have more than {_MOST_EVENT_BYTES >> 20} MiB; request fewer at a time."
        )


def _latest(segments: Sequence[Path], most: int) -> list[LogEntry]:
    """Read the last events, without reading the whole log."""
    found: list[LogEntry] = []
    for attempt in range(len(segments), 0, -1):
        path = segments[attempt - 1]
        lines = _last_lines(path, most - len(found))
        found = [event_log.decode_entry(f"{path}, near its end", line, attempt) for line in lines] + found
        if len(found) >= most:
            break
    return found


def _last_lines(path: Path, most: int) -> list[bytes]:
    """Return the last complete lines of a segment, without its first line, the header."""
    with event_log.opened(path) as file:
        start = end = file.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        newlines = 0
        while start and newlines < most + 2:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            blocks.append(file.read(size))
            newlines += blocks[-1].count(b"\n")
            _check_event_bytes(path, end - start)
    # The text after the last newline is incomplete; the first line is the header or cut off.
    return b"".join(reversed(blocks)).split(b"\n")[1:-1][-most:]


def _is_readable(name: str) -> bool:
    return name in _READABLE_FILES or (name.startswith("events.") and name.endswith(".jsonl"))


async def _content(descriptor: int, lane: Lane, *, masked: bool) -> AsyncIterator[bytes]:
    def read_chunk(offset: int) -> bytes:
        if not masked:
            return os.pread(descriptor, LOG_PIECE, offset)
        before = min(offset, MARGIN)
        data = os.pread(descriptor, before + LOG_PIECE + MARGIN, offset - before)
        return PRINTED.hide(data)[before : before + LOG_PIECE]

    try:
        offset = 0
        while data := await lane.run(read_chunk, offset):
            yield data
            offset += len(data)
    finally:
        os.close(descriptor)
