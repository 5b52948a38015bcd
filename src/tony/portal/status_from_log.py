"""How a job stands whose application master is not asked: another user's, or one far away. Its event log says it."""

from __future__ import annotations

import contextlib
import threading

from tony import clock
from tony.core.application import Application
from tony.core.report_builder import ReportContext, report
from tony.errors import InvalidTransition, UnknownJobError
from tony.history.event_log import check_length_of_others, segments
from tony.history.event_tail import EventTail
from tony.history.job_record import pending_report, read_job, read_summary
from tony.linux.threads import lock_held
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder


class StatusFromLog:
    """One job. Whoever asks again pays for what was logged since: a log of 10,000 tasks takes seconds to read."""

    def __init__(self, folder: JobFolder, *, own: bool = True) -> None:
        self._folder = folder
        self._own = own
        self._lock = threading.Lock()
        self._machine: _Machine | None = None

    def report(self) -> JobReport:
        """The last report, or what the machine knows that is fed the log. Blocks.

        Raises:
            UnknownJobError: there is no such job.
            TonyError: its record cannot be read.
        """
        with lock_held(self._lock, f"the event log of {self._folder.job_id} is being read"):
            machine, self._machine = self._machine, None
            ended = read_summary(self._folder, own=self._own)
            if ended is not None:
                return ended
            if machine is None or not machine.continues:
                record = read_job(self._folder, own=self._own)
                if record is None:
                    raise UnknownJobError(f"there is no job in {self._folder.path}.")
                if not segments(self._folder.path):
                    return pending_report(self._folder, record)
                machine = _Machine(self._folder, record)
            if not self._own:
                check_length_of_others(self._folder.path)
            told = machine.report()
            self._machine = machine  # of one whose log made no sense all is read anew
            return told


class _Machine:
    """The machine that decided the job, as far as its log was read."""

    def __init__(self, folder: JobFolder, record: JobRecord) -> None:
        self._folder = folder
        self._record = record
        self._app = Application(record.job_id, record.spec)
        self._tail = EventTail(folder)
        self._at, self._wall = 0.0, record.submitted

    @property
    def continues(self) -> bool:
        """Whether what was read is still there."""
        return self._tail.continues

    def report(self) -> JobReport:
        """How the job stands now.

        Raises:
            TonyError: the log makes no sense, or cannot be read.
        """
        for entry in self._tail.new():
            self._at, self._wall = entry.at, entry.wall
            with contextlib.suppress(InvalidTransition):  # another version's machine: what we understand is told
                self._app.handle(entry.event, entry.at)
        record = self._record
        around = ReportContext(folder=str(self._folder.path), user=record.user, submitted=record.submitted, live={})
        return report(self._app, self._at + max(0.0, clock.wall() - self._wall), around)
