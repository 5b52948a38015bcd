"""One job as pages see it, from its folder and its application master.

What has ended does not change: what was read of it is kept. Of a job that runs the event log is read on, and its master
is asked once a second at most, however many look.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path

from tony import clock
from tony.config.secrets import is_secret
from tony.errors import InfraError, TonyError
from tony.history import log
from tony.history.event_tail import EventTail
from tony.history.files import read_json
from tony.history.goodput import Ledger, ledger
from tony.history.log import Entry
from tony.history.metrics import Metrics, open_metrics
from tony.history.record import read_job, read_summary
from tony.history.timeline import Chronicle, Timeline, with_checkpoints
from tony.jobs import master
from tony.jobs.far import Far
from tony.linux.threads import beside
from tony.model.codec import DecodeError, from_plain
from tony.model.layout import JobFolder
from tony.model.record import JobRecord
from tony.model.report import JobReport
from tony.protocol.messages import Stacks
from tony.schedulers.base import Link
from tony.web.folder_logs import FolderLogs, open_plain
from tony.web.masking import MARGIN, Mask
from tony.web.near_logs import NearLogs
from tony.web.source import LOG_PIECE, Held, RecordFile

#: Seconds for which what a living master said is as good as new.
_FRESH = 1.0
#: A timeline holds for so many times the seconds that it took to make it.
_SHARE = 20.0
#: Bytes of an event log that are read at once from its end.
_BLOCK = 64 << 10
#: Containers of a task that are told, the last ones.
_MOST_HELD = 10
#: Files that are listed.
_MOST_FILES = 5000
#: Files of a record that hold nothing that its readers may not see, and the folder of the logs.
_SHOWN = ("job.json", "summary.json", "am.log", "metrics.db")


class FolderView:
    """One job.

    Args:
        ask: how it stands, as the one knows who knows.
        far: what of it lies on other machines; None: nothing, or nobody brings it.
    """

    def __init__(self, folder: JobFolder, ask: Callable[[], Awaitable[JobReport]], far: Far | None = None) -> None:
        self._folder = folder
        self._ask = ask
        self._far = far
        self._asking: asyncio.Task[JobReport] | None = None
        self._report: JobReport | None = None
        self._asked = 0.0
        self._record: JobRecord | None = None
        self._story = _Story(folder)
        self._telling: asyncio.Future[tuple[Timeline, Ledger] | None] | None = None
        self._masked: tuple[int, Mask] = (0, Mask())

    @property
    def job(self) -> str:
        """As `JobView`."""
        return self._folder.job_id

    @property
    def live(self) -> bool:
        """As `JobView`."""
        return not (self._report and self._report.state.ended) and not self._folder.summary.exists()

    async def report(self) -> JobReport:
        """As `JobView`."""
        known = self._report
        if known is not None and (known.state.ended or clock.monotonic() - self._asked < _FRESH):
            return known
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._learn())
        return await asyncio.shield(self._asking)

    async def _learn(self) -> JobReport:
        report = await beside(read_summary, self._folder) or await self._ask()
        self._report, self._asked = report, clock.monotonic()
        return report

    async def record(self) -> JobRecord | None:
        """As `JobView`."""
        if self._record is None:
            self._record = await beside(read_job, self._folder)
        return self._record

    async def events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[Entry]:
        """As `JobView`."""
        await self._refresh()
        return await beside(_events, self._folder, after, most, kinds)

    async def timeline(self) -> Timeline | None:
        """As `JobView`."""
        told = await self._told()
        return told and told[0]

    async def goodput(self) -> Ledger | None:
        """As `JobView`."""
        told = await self._told()
        return told and told[1]

    async def _told(self) -> tuple[Timeline, Ledger] | None:
        record = await self.record()
        if record is None:
            return None
        await self._refresh()
        # One thread at a time: however many ask, they wait here, and not in threads that others need.
        if self._telling is None or self._telling.done():
            work = beside(self._story.told, record, not self.live, self._opened_metrics)
            self._telling = asyncio.ensure_future(work)
        return await asyncio.shield(self._telling)

    async def metrics(self) -> Metrics | None:
        """As `JobView`."""
        await self._refresh()
        return await beside(self._opened_metrics)

    async def _refresh(self) -> None:
        if self._far is not None and self.live:
            await self._far.refresh()

    def _opened_metrics(self) -> Metrics | None:
        found = open_metrics(self._folder.metrics)
        if found.known:
            return found
        found.close()
        return None

    async def files(self) -> Sequence[RecordFile]:
        """As `JobView`."""
        return await beside(_files, self._folder)

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        """As `JobView`."""
        files = {file.path for file in await self.files() if file.readable}
        descriptor = await beside(open_plain, self._folder.path / path) if path in files else None
        if descriptor is None:
            return None
        return _content(descriptor, None if path == self._folder.metrics.name else await beside(self._mask))

    def logs(self, task: str) -> FolderLogs:
        """As `JobView`."""
        if self._far is not None:
            return NearLogs(self._folder.logs, task, self._mask(), partial(self._far.bring, task))
        return FolderLogs(self._folder.logs, task, self._mask())

    async def links(self) -> Sequence[Link]:
        """As `JobView`."""
        return await self._far.links() if self._far is not None else ()

    async def containers(self, task: str) -> Sequence[Held]:
        """As `JobView`."""
        line = await self.timeline() if self._far is not None else None
        if self._far is None or line is None:
            return ()
        had = dict(line.held.get(task, ())[-_MOST_HELD:])
        links = await self._far.container_links(had)
        return [Held(container=each, host=host, links=tuple(links.get(each, ()))) for each, host in had.items()][::-1]

    def _mask(self) -> Mask:
        """Hides what the job's secrets are, as long as they are there: the job's own folder has them while it runs."""
        try:
            stamp = self._folder.secret_job.stat().st_mtime_ns
        except OSError:
            return self._masked[1]
        if stamp != self._masked[0]:
            self._masked = stamp, Mask(_secrets(self._folder))
        return self._masked[1]

    # --- what changes it ----------------------------------------------------------------------------------------------

    async def stop(self, actor: str) -> None:
        """As `JobView`."""
        await master.tell_kill(self._folder, actor, now=False)
        self._forget()

    async def restart(self, actor: str) -> None:
        """As `JobView`."""
        await master.tell_restart(self._folder, actor)
        self._forget()

    async def stacks(self, task: str, actor: str) -> Stacks:
        """As `JobView`."""
        told = await master.ask_stacks(self._folder, actor, task)
        if not told.text:
            raise InfraError(told.problem)
        return told

    async def log_level(self, level: str, actor: str) -> None:
        """As `JobView`."""
        await master.tell_log_level(self._folder, level, actor)

    def _forget(self) -> None:
        self._asked = float("-inf")


class _Story:
    """The event log as a timeline, read on from where it was read last; used by one thread at a time."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._chronicle: Chronicle | None = None
        self._tail = EventTail(folder)
        self._events = 0
        self._made: tuple[Timeline, Ledger] | None = None
        self._over = False
        self._until = 0.0

    def told(
        self, record: JobRecord, ended: bool, metrics: Callable[[], Metrics | None]
    ) -> tuple[Timeline, Ledger] | None:
        """What there is so far; None without events."""
        with self._lock:
            if self._over or clock.monotonic() < self._until:
                return self._made
            began = clock.monotonic()
            if self._chronicle is None:
                self._chronicle = Chronicle(record)
            for entry in self._tail.new():
                self._chronicle.take(entry)
                self._events += 1
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


def _with_marks(line: Timeline, marks: Metrics | None) -> tuple[Timeline, Ledger]:
    if marks is None:
        return line, ledger(line)
    with marks:
        line = with_checkpoints(line, [(each.task, each.until, each.step) for each in marks.checkpoints()])
        return line, ledger(line, marks)


def _events(folder: JobFolder, after: int, most: int, kinds: Set[str]) -> list[Entry]:
    """Numbers are dense over all segments: what is not wanted is only counted."""
    found: list[Entry] = []
    segments = log.segments(folder.path)
    words = [f'"{kind}"'.encode() for kind in kinds]
    if after < 0:
        return [entry for entry in _latest(segments, -after) if not kinds or entry.event.kind in kinds][:most]
    number = 0
    for attempt, path in enumerate(segments, start=1):
        with log.opened(path) as file:
            file.readline(log.LONGEST_LINE)
            place = 1
            while log.is_whole(f"{path}:{place + 1}", line := file.readline(log.LONGEST_LINE)):
                number, place = number + 1, place + 1
                if number > after and (not words or any(word in line for word in words)):
                    entry = log.decode_entry(f"{path}:{place}", line, attempt)
                    if kinds and entry.event.kind not in kinds:
                        continue
                    found.append(entry)
                    if len(found) >= most:
                        return found
    return found


def _latest(segments: Sequence[Path], most: int) -> list[Entry]:
    """The last ones, without reading all that was before."""
    found: list[Entry] = []
    for attempt in range(len(segments), 0, -1):
        path = segments[attempt - 1]
        lines = _last_lines(path, most - len(found))
        found = [log.decode_entry(f"{path}, near its end", line, attempt) for line in lines] + found
        if len(found) >= most:
            break
    return found


def _last_lines(path: Path, most: int) -> list[bytes]:
    """The last whole lines of a segment, but never its first: that is no event."""
    with log.opened(path) as file:
        start = file.seek(0, os.SEEK_END)
        data = b""
        while start and data.count(b"\n") < most + 2:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            data = file.read(size) + data
    # What follows the last newline is torn, and what comes first is a header or half a line.
    return data.split(b"\n")[1:-1][-most:]


def _files(folder: JobFolder) -> list[RecordFile]:
    found = [*_of_folder(folder.path, "", _is_shown)]
    found += _of_folder(folder.logs, "logs/", lambda name: True)
    return sorted(found, key=lambda file: file.path)[:_MOST_FILES]


def _is_shown(name: str) -> bool:
    return name in _SHOWN or (name.startswith("events.") and name.endswith(".jsonl"))


def _of_folder(path: Path, prefix: str, readable: Callable[[str], bool]) -> Iterator[RecordFile]:
    try:
        if path.is_symlink():
            return
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                    status = entry.stat(follow_symlinks=False)
                    yield RecordFile(
                        path=f"{prefix}{entry.name}",
                        size=status.st_size,
                        changed=status.st_mtime,
                        readable=readable(entry.name),
                    )
    except (FileNotFoundError, NotADirectoryError):
        return


def _secrets(folder: JobFolder) -> set[str]:
    """Values of variables and parameters whose names say that nobody is to see them."""
    try:
        spec = from_plain(JobRecord, read_json(folder.secret_job), ignore_unknown=True).spec
    except (TonyError, DecodeError):
        return set()
    tables = [spec.env, spec.container_env, spec.params, *(role.env for role in spec.roles.values())]
    return {value for table in tables for name, value in table.items() if is_secret(name)}


async def _content(descriptor: int, mask: Mask | None) -> AsyncIterator[bytes]:
    def piece(offset: int) -> bytes:
        if mask is None:
            return os.pread(descriptor, LOG_PIECE, offset)
        before = min(offset, MARGIN)
        data = os.pread(descriptor, before + LOG_PIECE + MARGIN, offset - before)
        return mask.hide(data)[before : before + LOG_PIECE]

    try:
        offset = 0
        while data := await beside(piece, offset):
            yield data
            offset += len(data)
    finally:
        os.close(descriptor)
