"""A job at a portal, seen through its JSON API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from tony import clock
from tony.errors import ConnectionFailedError, InfraError
from tony.jobs.actions import NOT_RESTARTED, NOTHING_LOGS, require_running, select_tasks
from tony.jobs.job_view import JobView
from tony.jobs.log_files import LineSplitter, LogFileInfo, LogLine, Selection, select_named_tasks
from tony.jobs.portal_client.client import PortalClient
from tony.linux.thread_pools import to_thread
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.protocol.shared_messages import Stacks

#: Seconds between two requests for a job that has not ended.
_POLL_SECONDS = 1.0
_PIECE_BYTES = 1 << 20
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
        positions: dict[str, _LogPosition] = {}
        while True:
            is_last = report.state.ended or not follow
            for task in tasks:
                logs, missing = await to_thread(self._portal.fetch_logs, self.id, task)
                if missing and is_last:
                    self._notice(f"{task}: {missing}")
                for log in logs:
                    name = LogName.parse(log.name)
                    if name is None or not selection.matches(name):
                        continue
                    if log.name not in positions:
                        positions[log.name] = _LogPosition(
                            name, 0 if tail is None else await self._find_tail(log, tail)
                        )
                    position = positions[log.name]
                    if log.size < position.offset:
                        self._notice(f"{log.name} was rotated while it was read: some of its output is missing")
                        position.offset = log.size
                    async for lines in self._read_log(position, log.size):
                        yield lines
                    if is_last:
                        yield [*position.take()]
            if is_last:
                return
            tail = None
            await asyncio.sleep(_POLL_SECONDS)
            report = await self.status(tasks=False)

    async def _read_log(self, position: _LogPosition, size: int) -> AsyncGenerator[Sequence[LogLine], None]:
        """Yield the complete lines of a log from a position on, which moves."""
        while position.offset < size:
            data = await self._read(position.name.file, position.offset, min(_PIECE_BYTES, size - position.offset))
            if not data:
                return
            position.offset += len(data)
            yield [*position.split(data)]

    async def _read(self, name: str, offset: int, most: int) -> bytes:
        return await to_thread(self._portal.fetch_log_bytes, self.id, name, offset, most)

    async def _find_tail(self, log: LogFileInfo, count: int) -> int:
        """Return the offset of the last lines, searched within the last `_TAIL_BYTES` bytes."""
        data, start = b"", log.size
        while start > max(0, log.size - _TAIL_BYTES) and data.removesuffix(b"\n").count(b"\n") < count:
            step = min(64 << 10, start)
            start -= step
            data = await self._read(log.name, start, step) + data
        if not count:
            return log.size
        end = len(data) - data.endswith(b"\n")
        for _ in range(count):
            end = data.rfind(b"\n", 0, end)
            if end < 0:
                return start
        return start + end + 1

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


class _LogPosition(LineSplitter):
    """Position up to which a log was read.

    Attributes:
        offset: of the next byte.
    """

    def __init__(self, name: LogName, offset: int) -> None:
        super().__init__(name)
        self.offset = offset
