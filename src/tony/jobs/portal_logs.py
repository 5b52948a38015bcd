"""The output of a job's tasks, read through a portal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tony.jobs.log_names import LogName, Selection, named_tasks
from tony.jobs.log_reader import LONGEST_LINE, LogLine
from tony.jobs.portal_client import PortalClient, RemoteLog
from tony.model.ids import TaskId

_PIECE_BYTES = 1 << 20
_POLL_SECONDS = 1.0
#: Bytes at the end of a log in which to search for the last lines.
_TAIL_BYTES = 4 << 20


class PortalLogs:
    """The output of one job's tasks.

    Args:
        words: tasks or roles; empty for all.

    Attributes:
        tasks: the selected tasks.
        missing: task -> which of its output the portal cannot show, and why; empty if none.

    Raises:
        UserError: the job has no such task. Otherwise as `PortalClient.get`.
    """

    def __init__(self, portal: PortalClient, job: str, words: Sequence[str]) -> None:
        self._portal, self.job = portal, job
        report = portal.report(job)
        self._ended = report.state.ended
        every = [TaskId(each.role, each.index) for each in report.tasks]
        chosen = named_tasks(job, every, words)
        self.tasks = [str(task) for task in every if chosen is None or str(task) in chosen]
        self.missing: dict[str, str] = {}
        self._positions: dict[str, tuple[int, bytes]] = {}

    def lines(self, selection: Selection, tail: int | None, *, follow: bool) -> Iterator[Sequence[LogLine]]:
        """Yield the output, task by task.

        Args:
            tail: number of lines of each log to begin with.
            follow: continue until the job has ended.

        Raises:
            As `PortalClient.get`.
        """
        while True:
            over = self._ended or not follow  # the last pass includes incomplete lines
            yield from self._new_lines(selection, tail, over)
            if over:
                return
            tail = None
            time.sleep(_POLL_SECONDS)
            self._ended = self._portal.report(self.job, tasks=False).state.ended

    def _new_lines(self, selection: Selection, tail: int | None, over: bool) -> Iterator[Sequence[LogLine]]:
        """Yield the output since the last call."""
        for task in self.tasks:
            logs, self.missing[task] = self._portal.logs(self.job, task)
            for log in logs:
                name = LogName.parse(log.name)
                if name is not None and selection.takes(name):
                    yield from self._read_log(name, log, tail, over)

    def _read_log(self, name: LogName, log: RemoteLog, tail: int | None, over: bool) -> Iterator[Sequence[LogLine]]:
        position = self._positions.get(log.name)
        offset, rest = position or (0, b"")
        if position is None and tail is not None:
            offset = self._find_tail(log, tail)
        while offset < log.size:
            data = self._portal.log_bytes(self.job, log.name, offset, min(_PIECE_BYTES, log.size - offset))
            if not data:
                break
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            yield [LogLine(name, line) for line in lines]
        if over and rest:
            yield [LogLine(name, rest)]
            rest = b""
        self._positions[log.name] = offset, rest

    def _find_tail(self, log: RemoteLog, count: int) -> int:
        """Return the offset of the last lines, searched within the last `_TAIL_BYTES` bytes."""
        data, start = b"", log.size
        while start > max(0, log.size - _TAIL_BYTES) and data.removesuffix(b"\n").count(b"\n") < count:
            step = min(64 << 10, start)
            start -= step
            data = self._portal.log_bytes(self.job, log.name, start, step) + data
        if not count:
            return log.size
        end = len(data) - data.endswith(b"\n")
        for _ in range(count):
            end = data.rfind(b"\n", 0, end)
            if end < 0:
                return start
        return start + end + 1
