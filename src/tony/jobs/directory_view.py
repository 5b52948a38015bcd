"""A job of the state directory, seen through its directory, its application master and its scheduler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from tony.history.event_log import LogEntry
from tony.history.job_record import record_of
from tony.jobs import changing, job_follower, job_status, killing, log_stream
from tony.jobs.job_events import events
from tony.jobs.log_names import Selection
from tony.jobs.log_reader import LogLine
from tony.jobs.view import JobView
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.layout import Home
from tony.protocol.messages import Stacks

_log = logging.getLogger("tony")


class DirectoryJobView(JobView):
    """A job of the state directory.

    Args:
        notice: called with messages such as a lost connection.

    Attributes:
        folder: its directory.
    """

    def __init__(self, home: Home, job_id: str, notice: Callable[[str], None] = _log.warning) -> None:
        self.id = job_id
        self.home = home
        self.folder = home.job(job_id)
        self._notice = notice

    async def status(self, *, tasks: bool = True) -> JobReport:
        return await job_status.load_report(self.home, self.id)

    def reports(self) -> AsyncGenerator[JobReport, None]:
        """Yield the status of the job, now and after every change, until it has ended.

        Reconnects if the connection breaks. Stopping the iteration does not affect the job.
        """
        return job_follower.reports(self.home, self.id, self._notice)

    async def last_report(self, timeout: float | None) -> JobReport:
        async with asyncio.timeout(timeout), aclosing(self.reports()) as stream:
            async for report in stream:
                last = report
        return last

    async def task_ids(self) -> Sequence[TaskId]:
        return record_of(self.home, self.id).spec.task_ids

    def output(
        self, selection: Selection, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[Sequence[LogLine], None]:
        return log_stream.lines(self.home, self.id, selection, self._notice, follow=follow, keep=tail)

    def events(self, *, follow: bool = False) -> AsyncGenerator[LogEntry, None]:
        """Yield the events of the job, oldest first.

        Args:
            follow: yield new events until the job has ended.
        """
        return events(self.home, self.id, follow=follow)

    async def kill(self, *, now: bool = False) -> JobReport:
        """Kill the job; return as soon as it is stopping. Does nothing if it has ended.

        Args:
            now: without the grace period for programs.

        Returns:
            The status of the job just before.

        Raises:
            ConnectionFailed: its application master is running, but does not answer.
        """
        return await killing.kill(self.home, self.id, now=now)

    async def restart(self) -> JobReport:
        return await changing.restart(self.home, self.id)

    def stacks(self, *tasks: str) -> AsyncGenerator[Stacks, None]:
        return changing.stacks(self.home, self.id, tasks)

    async def set_log_level(self, level: str) -> JobReport:
        return await changing.set_log_level(self.home, self.id, level)
