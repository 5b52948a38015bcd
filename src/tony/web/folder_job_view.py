"""One job as pages see it, from its folder and its application master.

What has ended does not change: what was read of it is kept. Of a job that runs the event log is read on, and its master
is asked once a second at most, however many look.
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
from tony.linux.threads import USUAL, Lane, current_user, lock_held, to_thread
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder
from tony.protocol.messages import Stacks
from tony.schedulers.interface import WebLink
from tony.storage.local_store import LocalStore
from tony.storage.store import joined
from tony.web.job_source import LOG_PIECE, RecordFile, TaskContainer
from tony.web.lanes import OTHERS
from tony.web.log_files import FolderLogs
from tony.web.remote_logs import RemoteLogs
from tony.web.secret_masking import MARGIN, PRINTED

T = TypeVar("T")
#: Seconds for which what a living master said is as good as new.
_FRESH = 1.0
#: A timeline holds for so many times the seconds that it took to make it.
_SHARE = 20.0
#: Bytes of an event log that are read at once from its end.
_BLOCK = 64 << 10
#: Bytes that a task's place in a timeline takes in memory, and what a byte of a summary and of an event log takes.
_TASK_BYTES = 2000
_FACTOR_OF_JSON = 8
_FACTOR_OF_JOB = 16  # it may have many short texts
_FACTOR_OF_LOG = 3
#: Seconds for which an event log is read on for one request, and events between two looks at the clock.
_LONGEST_READ_SECONDS = 20.0
_EVENTS_BETWEEN_LOOKS = 1000
#: Bytes of an event log that one answer may hold.
_MOST_EVENT_BYTES = 16 << 20
#: Containers of a task that are told, the last ones.
_MOST_HELD = 10
#: Files that are listed.
_MOST_FILES = 5000
#: Why a job is not changed from here.
_NOT_OWN = (
    "Only a portal of the job's own user can do that: this one does not have the job in its own state directory. "
    "That user can do it with `tony`, too."
)
#: Files of a record that hold nothing that its readers may not see.
_SHOWN = ("job.json", "summary.json", "am.log", "metrics.db")


class FolderView:
    """One job.

    Args:
        folder: in the state directory of the user, or a copy: nothing that another user can write.
        ask: how it stands, as the one knows who knows.
        far: what of it lies on other machines; None: nothing, or nobody brings it.
        files: in which its files and logs lie, if that is not the folder itself; and at which path there.
        refresh: brings what is new to the folder, if that is a copy.
        is_own: the job belongs to the user of this process: its secrets may be read, and its application master called.
    """

    def __init__(
        self,
        folder: JobFolder,
        ask: Callable[[], Awaitable[JobReport]],
        far: RemoteRecord | None = None,
        *,
        files: tuple[LocalStore, str] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
        is_own: bool = False,
    ) -> None:
        self._folder = folder
        self._is_own = is_own
        self._lane = USUAL if is_own else OTHERS
        self._ask = ask
        self._far = far
        self._store, self._path = files or (LocalStore(folder.path), "")
        self._bring = refresh
        # By user: what one of them waits for in line behind their own requests, another one does not.
        self._asking: dict[str | None, asyncio.Task[JobReport]] = {}
        self._telling: dict[str | None, asyncio.Task[tuple[Timeline, GoodputLedger] | None]] = {}
        self._report: JobReport | None = None
        self._weight = 0
        self._asked = 0.0
        self._record: JobRecord | None = None
        self._story = _Story(folder, is_own=is_own)

    @property
    def job(self) -> str:
        """As `JobView`."""
        return self._folder.job_id

    @property
    def can_change(self) -> bool:
        """As `JobView`."""
        return self._is_own

    @property
    def weight(self) -> int:
        """Bytes that what was read of it takes in memory, about."""
        return self._weight

    @property
    def live(self) -> bool:
        """As `JobView`."""
        return not (self._report and self._report.state.ended) and not self._folder.summary.exists()

    async def report(self) -> JobReport:
        """As `JobView`."""
        known = self._report
        if known is not None and (known.state.ended or clock.monotonic() - self._asked < _FRESH):
            return known
        return await _shared(self._asking, self._learn)

    async def _learn(self) -> JobReport:
        if self._bring is not None and self.live:
            await self._bring()
        report = await self._lane.run(read_summary, self._folder, own=self._is_own) or await self._ask()
        self._weight = await to_thread(_weight, self._folder, len(report.tasks))
        self._report, self._asked = report, clock.monotonic()
        return report

    async def record(self) -> JobRecord | None:
        """As `JobView`."""
        if self._record is None:
            self._record = await self._lane.run(read_job, self._folder, own=self._is_own)
        return self._record

    async def events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[LogEntry]:
        """As `JobView`."""
        await self._refresh()
        return await self._lane.run(_events, self._folder, after, most, kinds, own=self._is_own)

    async def timeline(self) -> Timeline | None:
        """As `JobView`."""
        told = await self._told()
        return told and told[0]

    async def goodput(self) -> GoodputLedger | None:
        """As `JobView`."""
        told = await self._told()
        return told and told[1]

    async def _told(self) -> tuple[Timeline, GoodputLedger] | None:
        record = await self.record()
        if record is None:
            return None
        await self._refresh()
        # One thread of a user at a time: however many ask, they wait here, and not in threads that others need.
        work = partial(self._lane.run, self._story.told, record, not self.live, self._opened_metrics)
        return await _shared(self._telling, work)

    async def metrics(self) -> Metrics | None:
        """As `JobView`."""
        await self._refresh()
        return await self._lane.run(self._opened_metrics)

    async def _refresh(self) -> None:
        if self._bring is not None and self.live:
            await self._bring()
        if self._far is not None and self.live:
            await self._far.refresh()

    def _opened_metrics(self) -> Metrics | None:
        found = open_metrics(self._folder.metrics, own=self._is_own)
        if found.known:
            return found
        found.close()
        return None

    async def files(self) -> Sequence[RecordFile]:
        """As `JobView`."""
        return await self._lane.run(self._files)

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        """As `JobView`."""
        files = {file.path for file in await self.files() if file.readable}
        descriptor = await self._lane.run(self._opened, path) if path in files else None
        if descriptor is None:
            return None
        return _content(descriptor, self._lane, masked=path != self._folder.metrics.name)

    def logs(self, task: str) -> FolderLogs:
        """As `JobView`."""
        if self._far is not None:
            return RemoteLogs(self._store, self._logs, task, partial(self._far.bring, task), lane=self._lane)
        return FolderLogs(self._store, self._logs, task, lane=self._lane)

    @property
    def _logs(self) -> str:
        return joined(self._path, "logs")

    def _files(self) -> list[RecordFile]:
        found = [*self._in_folder("", _is_shown)]
        found += self._in_folder("logs", lambda name: True)
        return sorted(found, key=lambda file: file.path)[:_MOST_FILES]

    def _in_folder(self, folder: str, readable: Callable[[str], bool]) -> Iterator[RecordFile]:
        for item in self._store.list_files(joined(self._path, folder)):
            if not item.name.startswith("."):
                yield RecordFile(
                    path=joined(folder, item.name), size=item.size, changed=item.changed, readable=readable(item.name)
                )

    def _opened(self, path: str) -> int | None:
        try:
            return self._store.open(joined(self._path, path))
        except OSError:
            return None

    async def links(self) -> Sequence[WebLink]:
        """As `JobView`."""
        return await self._far.links() if self._far is not None else ()

    async def containers(self, task: str) -> Sequence[TaskContainer]:
        """As `JobView`."""
        line = await self.timeline() if self._far is not None else None
        if self._far is None or line is None:
            return ()
        had = dict(line.held.get(task, ())[-_MOST_HELD:])
        links = await self._far.container_links(had)
        return [
            TaskContainer(container=each, host=host, links=tuple(links.get(each, ()))) for each, host in had.items()
        ][::-1]

    # --- what changes it ----------------------------------------------------------------------------------------------

    async def stop(self, actor: str) -> None:
        """As `JobView`."""
        self._check_own()
        await am_client.tell_kill(self._folder, actor, now=False)
        self._forget()

    async def restart(self, actor: str) -> None:
        """As `JobView`."""
        self._check_own()
        await am_client.tell_restart(self._folder, actor)
        self._forget()

    async def stacks(self, task: str, actor: str) -> Stacks:
        """As `JobView`."""
        self._check_own()
        told = await am_client.ask_stacks(self._folder, actor, task)
        if not told.text:
            raise InfraError(told.problem)
        return told

    async def log_level(self, level: str, actor: str) -> None:
        """As `JobView`."""
        self._check_own()
        await am_client.tell_log_level(self._folder, level, actor)

    def _check_own(self) -> None:
        if not self.can_change:
            raise UserError(_NOT_OWN)

    def _forget(self) -> None:
        self._asked = float("-inf")


def _weight(folder: JobFolder, tasks: int) -> int:
    """Return how many bytes the report and the timeline of a job take in memory, from the size of its files."""
    size = tasks * _TASK_BYTES
    logs = [(path, _FACTOR_OF_LOG) for path in event_log.segments(folder.path)]
    for path, factor in ((folder.job, _FACTOR_OF_JOB), (folder.summary, _FACTOR_OF_JSON), *logs):
        with contextlib.suppress(OSError):
            size += factor * path.lstat().st_size
    return size


async def _shared(tasks: dict[str | None, asyncio.Task[T]], work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Wait for the current user's task, which is begun if there is none."""
    user = current_user()
    task = tasks.get(user)
    if task is None:
        task = tasks[user] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: tasks.pop(user, None))
    return await asyncio.shield(task)


class _Story:
    """The event log as a timeline, read on from where it was read last; used by one thread at a time."""

    def __init__(self, folder: JobFolder, *, is_own: bool) -> None:
        self._folder = folder
        self._is_own = is_own
        self._lock = threading.Lock()
        self._chronicle: TimelineReader | None = None
        self._tail = EventTail(folder)
        self._events = 0
        self._made: tuple[Timeline, GoodputLedger] | None = None
        self._over = False
        self._until = 0.0

    def told(
        self, record: JobRecord, ended: bool, metrics: Callable[[], Metrics | None]
    ) -> tuple[Timeline, GoodputLedger] | None:
        """What there is so far; None without events."""
        with lock_held(self._lock, f"the event log of {self._folder.job_id} is being read"):
            if self._over or clock.monotonic() < self._until:
                return self._made
            began = clock.monotonic()
            if not self._is_own:
                event_log.check_length_of_others(self._folder.path)
            if self._chronicle is None:
                self._chronicle = TimelineReader(record)
            for entry in self._tail.new():
                self._chronicle.take(entry)
                self._events += 1
                if not self._events % _EVENTS_BETWEEN_LOOKS and clock.monotonic() - began > _LONGEST_READ_SECONDS:
                    raise OverloadedError(
                        f"the event log of {self._folder.job_id} is long: {self._events:,} events of it were read so "
                        "far. Look again, and it is read on."
                    )
            if not self._events:
                return None
            made = self._chronicle.timeline()
            if not ended:
                made = self._chronicle.timeline(clock.wall() - made.accepted)
            self._made = _with_marks(made, metrics())
            if ended:
                self._over, self._chronicle = True, None
            # However large the job, no more than some share of a core goes into telling of it again and again.
            self._until = clock.monotonic() + max(_FRESH, _SHARE * (clock.monotonic() - began))
            return self._made


def _with_marks(line: Timeline, marks: Metrics | None) -> tuple[Timeline, GoodputLedger]:
    if marks is None:
        return line, ledger(line)
    with marks:
        line = with_checkpoints(line, [(each.task, each.until, each.step) for each in marks.checkpoints()])
        return line, ledger(line, marks)


def _events(folder: JobFolder, after: int, most: int, kinds: Set[str], *, own: bool) -> list[LogEntry]:
    """Numbers are dense over all segments: what is not wanted is only counted."""
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
            f"{path}: these events have more than {_MOST_EVENT_BYTES >> 20} MiB: read fewer of them at once."
        )


def _latest(segments: Sequence[Path], most: int) -> list[LogEntry]:
    """The last ones, without reading all that was before."""
    found: list[LogEntry] = []
    for attempt in range(len(segments), 0, -1):
        path = segments[attempt - 1]
        lines = _last_lines(path, most - len(found))
        found = [event_log.decode_entry(f"{path}, near its end", line, attempt) for line in lines] + found
        if len(found) >= most:
            break
    return found


def _last_lines(path: Path, most: int) -> list[bytes]:
    """The last whole lines of a segment, but never its first: that is no event."""
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
    # What follows the last newline is torn, and what comes first is a header or half a line.
    return b"".join(reversed(blocks)).split(b"\n")[1:-1][-most:]


def _is_shown(name: str) -> bool:
    return name in _SHOWN or (name.startswith("events.") and name.endswith(".jsonl"))


async def _content(descriptor: int, lane: Lane, *, masked: bool) -> AsyncIterator[bytes]:
    def piece(offset: int) -> bytes:
        if not masked:
            return os.pread(descriptor, LOG_PIECE, offset)
        before = min(offset, MARGIN)
        data = os.pread(descriptor, before + LOG_PIECE + MARGIN, offset - before)
        return PRINTED.hide(data)[before : before + LOG_PIECE]

    try:
        offset = 0
        while data := await lane.run(piece, offset):
            yield data
            offset += len(data)
    finally:
        os.close(descriptor)
