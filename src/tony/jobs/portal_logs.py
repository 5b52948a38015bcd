"""What a job's tasks print, as a portal tells it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tony.jobs.log_names import LogName, Selection, named_tasks
from tony.jobs.log_reader import LONGEST_LINE, LogLine
from tony.jobs.portal_client import PortalClient, RemoteLog
from tony.model.ids import TaskId

#: Bytes of one piece of a log, and seconds between two looks at one that is followed.
_PIECE, _PAUSE = 1 << 20, 1.0
#: Bytes at the end of a log in which the last lines are looked for.
_LAST = 4 << 20


class PortalLogs:
    """The output of one job's tasks.

    Args:
        words: tasks or roles; none for all.

    Attributes:
        tasks: which those are.
        missing: task -> what of its output the portal cannot show, and why; empty if nothing.

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
        self._places: dict[str, tuple[int, bytes]] = {}

    def lines(self, selection: Selection, tail: int | None, *, follow: bool) -> Iterator[Sequence[LogLine]]:
        """What there is by now, of each task in turn.

        Args:
            tail: begin with so many lines of each log.
            follow: go on with what comes, until the job has ended.

        Raises:
            As `PortalClient.get`.
        """
        while True:
            over = self._ended or not follow  # what has no end yet is told as well, if nobody looks again
            yield from self._new(selection, tail, over)
            if over:
                return
            tail = None
            time.sleep(_PAUSE)
            self._ended = self._portal.report(self.job, tasks=False).state.ended

    def _new(self, selection: Selection, tail: int | None, over: bool) -> Iterator[Sequence[LogLine]]:
        """What has come since the last call."""
        for task in self.tasks:
            logs, self.missing[task] = self._portal.logs(self.job, task)
            for log in logs:
                name = LogName.parse(log.name)
                if name is not None and selection.takes(name):
                    yield from self._of(name, log, tail, over)

    def _of(self, name: LogName, log: RemoteLog, tail: int | None, over: bool) -> Iterator[Sequence[LogLine]]:
        place = self._places.get(log.name)
        offset, rest = place or (0, b"")
        if place is None and tail is not None:
            offset = self._last(log, tail)
        while offset < log.size:
            data = self._portal.log_bytes(self.job, log.name, offset, min(_PIECE, log.size - offset))
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
        self._places[log.name] = offset, rest

    def _last(self, log: RemoteLog, count: int) -> int:
        """Where the last lines begin: within the last megabytes, or at the beginning of those."""
        data, start = b"", log.size
        while start > max(0, log.size - _LAST) and data.removesuffix(b"\n").count(b"\n") < count:
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
