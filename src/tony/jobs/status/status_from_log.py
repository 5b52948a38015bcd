"""The status of a job from its event log, if its AM is not queried: another user's job, or an AM that is silent."""

from __future__ import annotations

import contextlib
import threading

from tony import clock
from tony.core.application import Application
from tony.core.report_builder import ReportContext, build_report
from tony.errors import InvalidTransitionError, UnknownJobError
from tony.history.event_log import EventTail, check_foreign_length, segments
from tony.history.job_record import build_pending_report, read_job, read_summary
from tony.linux.thread_pools import lock_held
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder
from tony.model.submission_record import JobRecord


class StatusFromLog:
    """Reads the status of one job incrementally: the log of a job with 10,000 tasks takes seconds to read."""

    def __init__(self, folder: JobFolder, *, own: bool = True) -> None:
        self._folder = folder
        self._own = own
        self._lock = threading.Lock()
        self._replay: _LogReplay | None = None

    def load_report(self) -> JobReport:
        """Return the final report, or the status after replaying new events. Blocks.

        Raises:
            UnknownJobError: there is no such job.
            TonyError: its files cannot be read.
        """
        with lock_held(self._lock, f"the event log of {self._folder.job_id} is being read"):
            replay, self._replay = self._replay, None
            ended = read_summary(self._folder, own=self._own)
            if ended is not None:
                return ended
            if replay is None or not replay.tail.continues:
                record = read_job(self._folder, own=self._own)
                if record is None:
                    raise UnknownJobError(f"there is no job in {self._folder.path}")
                if not segments(self._folder.path):
                    return build_pending_report(self._folder, record)
                replay = _LogReplay(self._folder, record)
            if not self._own:
                check_foreign_length(self._folder.path)
            report = replay.build_report()
            self._replay = replay  # not after an error: then the whole log is read again
            return report


class _LogReplay:
    """The job's state machine, and the position in its log.

    Attributes:
        tail: the log behind that position.
    """

    def __init__(self, folder: JobFolder, record: JobRecord) -> None:
        self.tail = EventTail(folder)
        self._folder = folder
        self._record = record
        self._app = Application(record.job_id, record.spec)
        self._at, self._wall = 0.0, record.submitted

    def build_report(self) -> JobReport:
        """Return the current status.

        Raises:
            TonyError: the log is invalid, or cannot be read.
        """
        for entry in self.tail.read_new():
            self._at, self._wall = entry.at, entry.wall
            with contextlib.suppress(InvalidTransitionError):  # logged by another version: apply what this one accepts
                self._app.handle(entry.event, entry.at)
        record = self._record
        context = ReportContext(folder=str(self._folder.path), user=record.user, submitted=record.submitted, live={})
        return build_report(self._app, self._at + max(0.0, clock.wall() - self._wall), context)


def report_as_logged(folder: JobFolder, record: JobRecord) -> JobReport:
    """Return the job as its log leaves it, however damaged that is: its AM may still be alive. Blocks."""
    with contextlib.suppress(Exception):
        if segments(folder.path):
            return _LogReplay(folder, record).build_report()
    return build_pending_report(folder, record)
