"""A job at a portal, seen through its JSON API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from itertools import chain

from tony import clock
from tony.errors import ConnectionFailedError, InfraError
from tony.jobs.actions import NOT_RESTARTED, NOTHING_LOGS, require_running, select_tasks
from tony.jobs.job_view import JobView
from tony.jobs.log_files import Selection, select_named_tasks
from tony.jobs.log_lines import MAX_LINE_BYTES, LineSplitter, LogLine, group_lines, merge_lines
from tony.jobs.portal_client.client import PortalClient
from tony.linux.thread_pools import to_thread
from tony.linux.time_index import PER_SECOND
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.protocol.shared_messages import Stacks

#: Seconds between two requests for a job that has not ended.
_POLL_SECONDS = 1.0
#: Bytes per request: of one log, of each of many that are merged, and of all of these together.
_PIECE_BYTES = 1 << 20
_MIN_PIECE_BYTES = 16 << 10
_MERGED_BYTES = 32 << 20
#: Bytes at the end of a log in which to search for the last lines.
_TAIL_BYTES = 4 << 20
_log = logging.getLogger("tony")


class PortalJobView(JobView):
    """A job at a portal. All methods also raise what `PortalClient.get` raises.

    Args:
        notice: called with which output the portal could not show, and why.
    """

    def __init__(self, portal: PortalClient, job_id: str, notice: Callable[[str], None] = _log.warning) -> None:
        self.id = job_id
        self._portal = portal
        self._notice = notice

    async def status(self, *, tasks: bool = True) -> JobReport:
        return await to_thread(self._portal.fetch_report, self.id, tasks=tasks)

    async def await_last_report(self, timeout: float | None) -> JobReport:
        deadline = None if timeout is None else clock.monotonic() + timeout
        while not (await self.status(tasks=False)).state.ended:
            if deadline is not None and clock.monotonic() > deadline:
                raise TimeoutError
            left = _POLL_SECONDS if deadline is None else deadline - clock.monotonic()
            await asyncio.sleep(max(0.0, min(_POLL_SECONDS, left)))
        return await self.status()

    async def task_ids(self) -> Sequence[TaskId]:
        return [task.id for task in (await self.status()).tasks]

    async def output(
        self, selection: Selection, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[Sequence[LogLine], None]:
        report = await self.status()
        tasks = [each.task for each in report.tasks if selection.tasks is None or each.task in selection.tasks]
        readers: dict[str, _PortalLogReader] = {}
        while True:
            is_last = report.state.ended or not follow
            sizes: dict[LogName, int] = {}
            for task in tasks:
                logs, missing = await to_thread(self._portal.fetch_logs, self.id, task)
                if missing and is_last:
                    self._notice(f"{task}: {missing}")
                sizes |= {name: log.size for log in logs if (name := LogName.parse(log.name)) is not None}
            for name in selection.select(sizes):
                if name.file not in readers:
                    readers[name.file] = reader = _PortalLogReader(self._portal, self.id, name, selection)
                    await to_thread(reader.skip, sizes[name], tail)
            async for lines in self._read_logs(list(readers.values()), sizes, selection, is_last=is_last):
                yield lines
            if is_last:
                return
            tail = None
            await asyncio.sleep(_POLL_SECONDS)
            report = await self.status(tasks=False)

    async def _read_logs(
        self,
        readers: Sequence[_PortalLogReader],
        sizes: Mapping[LogName, int],
        selection: Selection,
        *,
        is_last: bool,
    ) -> AsyncGenerator[Sequence[LogLine], None]:
        """Yield the new lines of logs of these sizes, merged if their times are wanted."""
        for reader in readers:
            reader.piece_bytes = min(_PIECE_BYTES, max(_MIN_PIECE_BYTES, _MERGED_BYTES // len(readers)))
            if sizes.get(reader.name, 0) < reader.offset:
                self._notice(f"{reader.name.file} was rotated while it was read: some of its output is missing")
                reader.offset = sizes.get(reader.name, 0)
        streams = [reader.read(sizes.get(reader.name, 0), is_last=is_last) for reader in readers]
        portions = group_lines(merge_lines(streams) if selection.has_times else chain.from_iterable(streams))
        while lines := await to_thread(next, portions, ()):
            yield lines

    async def advice(self) -> Mapping[str, Json]:
        """Return recommendations for the job, like `tony advise --json`."""
        return await to_thread(self._portal.fetch_advice, self.id)

    async def restart(self) -> JobReport:
        return await self._change(NOT_RESTARTED, "restart")

    async def set_log_level(self, level: str) -> JobReport:
        return await self._change(NOTHING_LOGS, "log-level", {"level": level})

    async def _change(self, otherwise: str, what: str, words: Mapping[str, str] | None = None) -> JobReport:
        """Send a command; return the status just before.

        Args:
            otherwise: suffix of the error for a job that has ended.
        """
        report = await self.status(tasks=False)
        require_running(report, otherwise)
        await to_thread(self._portal.change, self.id, what, words)
        return report

    async def stacks(self, *tasks: TaskId | str) -> AsyncGenerator[Stacks, None]:
        report = await self.status()
        every = [each.id for each in report.tasks]
        for task in select_tasks(report, select_named_tasks(self.id, every, tasks)):
            try:
                yield await to_thread(self._portal.fetch_stacks, self.id, task)
            except ConnectionFailedError:  # the portal itself cannot be reached
                raise
            except InfraError as error:
                yield Stacks(task=task, problem=str(error))


class _PortalLogReader(LineSplitter):
    """Reads one log of a portal. Blocks.

    Attributes:
        offset: of the next byte.
        piece_bytes: bytes per request.
    """

    def __init__(self, portal: PortalClient, job_id: str, name: LogName, selection: Selection) -> None:
        super().__init__(name)
        self.offset = 0
        self.piece_bytes = _PIECE_BYTES
        self._portal = portal
        self._job_id = job_id
        self._since = selection.since
        self._has_times = selection.has_times or selection.since is not None

    def skip(self, size: int, tail: int | None) -> None:
        """Skip lines of a log of this size that were printed before the selected time, and all but the last `tail`."""
        if self._since is not None:
            self.offset = self._find_time(size, int(self._since * PER_SECOND))
        if tail is not None:
            self.offset = max(self.offset, self._find_tail(size, tail))

    def read(self, size: int, *, is_last: bool) -> Iterator[LogLine]:
        """Yield new lines up to a size of the log; if it is the last time, also an incomplete one."""
        while self.offset < size:
            most = min(self.piece_bytes, size - self.offset)
            data = self._read_bytes(self.offset, most)
            if not data:
                break
            times = self._read_times(self.offset, len(data)) if self._has_times else ()
            self.offset += len(data)
            yield from self._select_recent(self.split(data, times))
        if is_last:
            yield from self._select_recent(self.take())

    def _select_recent(self, lines: Iterator[LogLine]) -> Iterator[LogLine]:
        since = self._since
        return (line for line in lines if since is None or line.at is None or line.at >= since)

    def _read_bytes(self, offset: int, most: int) -> bytes:
        return self._portal.fetch_log_bytes(self._job_id, self.name.file, offset, most)

    def _read_times(self, offset: int, most: int) -> Sequence[tuple[int, int]]:
        return self._portal.fetch_log_times(self._job_id, self.name.file, offset, most)

    def _find_time(self, size: int, moment: int) -> int:
        """Return the offset of the line with the first byte that was printed at or after a time."""
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            times = self._read_times(middle, 1)
            if times and times[0][1] < moment:
                low = middle + 1
            else:
                high = middle
        start = max(0, low - MAX_LINE_BYTES)
        return start + self._read_bytes(start, low - start).rfind(b"\n") + 1 if low > start else low

    def _find_tail(self, size: int, count: int) -> int:
        """Return the offset of the last lines, searched within the last `_TAIL_BYTES` bytes."""
        data, start = b"", size
        while start > max(0, size - _TAIL_BYTES) and data.removesuffix(b"\n").count(b"\n") < count:
            step = min(64 << 10, start)
            start -= step
            data = self._read_bytes(start, step) + data
        if not count:
            return size
        end = len(data) - data.endswith(b"\n")
        for _ in range(count):
            end = data.rfind(b"\n", 0, end)
            if end < 0:
                return start
        return start + end + 1
