"""A job's report by a replay of its event log, where its AM cannot be asked: it is dead, silent, or of another user."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

from tony import clock
from tony.core.application import Application
from tony.core.failure_builders import failure_from_refusal
from tony.core.report_builder import ReportContext, build_report
from tony.errors import InvalidTransitionError, RecordError, StorageError, UnknownJobError
from tony.history.event_log import EventTail, LogEntry, check_foreign_length, segments
from tony.history.job_record import build_pending_report, load_kill_request, read_job, read_summary
from tony.history.replay import find_gap
from tony.jobs.am_client import locate_am
from tony.jobs.status.job_end import LOST_NOTE, add_signal_source, explain_loss
from tony.linux.files import read_tail
from tony.linux.thread_pools import lock_held
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, end_report
from tony.model.state_directory import JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus


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
            report = replay.build_current_report()
            self._replay = replay  # not after an error: then the whole log is read again
            return report


class _LogReplay:
    """The job's state machine, and the position in its log.

    Attributes:
        tail: the log behind that position.
        events: number of events before it; last_at, last_wall: times of the last one.
    """

    def __init__(self, folder: JobFolder, record: JobRecord) -> None:
        self.tail = EventTail(folder)
        self.app = Application(record.job_id, record.spec)
        self.events, self.last_at, self.last_wall = 0, 0.0, record.submitted
        self._context = ReportContext(folder=str(folder.path), user=record.user, submitted=record.submitted, live={})

    def read_until_gap(self) -> str | None:
        """Apply the new events up to a gap; return what is wrong there, None without one.

        Raises:
            TonyError: the log is invalid, or cannot be read.
        """
        for entry in self.tail.read_new():
            gap = find_gap(entry, self.events, self.app.state.spec)
            if gap:
                return gap
            self._apply(entry)
        return None

    def _apply(self, entry: LogEntry) -> None:
        self.events, self.last_at, self.last_wall = self.events + 1, entry.at, entry.wall
        with contextlib.suppress(InvalidTransitionError):  # logged by another version: apply what this one accepts
            self.app.handle(entry.event, entry.at)

    def build_current_report(self) -> JobReport:
        """Apply the new events, and return the status. Raises as `read_until_gap`."""
        for entry in self.tail.read_new():
            self._apply(entry)
        return build_report(self.app, self.last_at + max(0.0, clock.wall() - self.last_wall), self._context)

    def build_last_report(self) -> JobReport:
        """Return the status after the last event."""
        return build_report(self.app, self.last_at, self._context)


def report_as_logged(folder: JobFolder, record: JobRecord) -> JobReport:
    """Return the job as its log leaves it, however damaged that is: its AM may still be alive. Blocks."""
    with contextlib.suppress(Exception):
        if segments(folder.path):
            return _LogReplay(folder, record).build_current_report()
    return build_pending_report(folder, record)


#: Lines of the AM's own log quoted in the failure.
_QUOTED_LINES = 10
#: Bytes read from the end of that log for them.
_TAIL_BYTES = 16 * 1024


def build_last_report(folder: JobFolder, record: JobRecord, status: ApplicationStatus | None = None) -> JobReport:
    """Return the final report of a job whose AM is dead. Blocking: replays the whole log.

    Args:
        status: the scheduler's report of the end, if any.
    """
    log: _LogReplay | None = None
    note = ""
    try:
        log = _LogReplay(folder, record)
        gap = log.read_until_gap()
        if gap:
            note = f" Its event log is damaged: {gap}."
    except RecordError as error:
        log, note = None, f" Its event log is damaged: {error}"
    except Exception as error:  # a bug that replaying hits again must not keep the job open forever
        log = None
        note = f" Its event log cannot be replayed ({type(error).__name__}: {error}); this is a bug in tony."
    if log is None or not log.events:
        pending = build_pending_report(folder, record)
        return _build_lost_report(folder, pending, status, last_sign=0.0, note=note)
    report, final = log.build_last_report(), log.app.state.final
    if final is None:
        return _build_lost_report(folder, report, status, last_sign=log.last_wall, note=note)
    # Its result was decided before the AM died during cleanup.
    report = end_report(report, final.failure, at=report.ended or log.last_wall, note="stopped at the job's end")
    return add_signal_source(report, status) if status else report


def _build_lost_report(
    folder: JobFolder, report: JobReport, status: ApplicationStatus | None, last_sign: float, note: str = ""
) -> JobReport:
    scheduler_end = min((status.ended if status else None) or 0.0, clock.wall())
    ended = max(last_sign, _find_last_write_time(folder), report.submitted or 0.0, scheduler_end)
    who = f"the application master (pid {report.am.pid} on {report.am.host})" if report.am else "the application master"
    how = "died" if report.attempt or folder.am_log.exists() else "was never started"
    note += _read_supervisor_note(folder)
    others = (report.failure.reason, *report.failure.others) if report.failure else ()
    if status and status.is_unstartable:
        refusal = failure_from_refusal(status.note, report.session, max(0.0, ended - (report.submitted or ended)))
        refusal = replace(refusal, reason=f"{refusal.reason}{note}", others=others)
        return end_report(report, refusal, at=ended, note=LOST_NOTE, task_state=TaskState.LOST)
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        cause=FailureCause.AM_LOST,
        reason=f"{who} {how}, and the job with it; AM log: {folder.am_log}.{note}",
        session=report.session,
        at=max(0.0, ended - (report.submitted or ended)),
        host=report.am.host if report.am else None,
        tail=_read_last_lines(folder.am_log),
        log=folder.am_log.name,
        others=others,
    )
    outcome = explain_loss(failure, status, load_kill_request(folder))
    end = end_report
    may_have_run = status is not None and status.result in (JobState.FAILED, JobState.SUCCEEDED)
    if may_have_run and not report.attempt:  # nothing of it was read
        end = partial(end_report, started_states=frozenset(TaskState))
    return end(report, outcome.failure, at=ended, note=outcome.note, task_state=outcome.task_state)


def _read_supervisor_note(folder: JobFolder) -> str:
    """Return a note that the AM's supervisor, which would have restarted it, is dead too; empty if it is not."""
    with contextlib.suppress(RecordError, StorageError):
        location = locate_am(folder)
        if location and location.supervisor is not None:
            return f" Its supervisor (pid {location.supervisor}), which would have restarted it, is dead as well."
    return ""


def _find_last_write_time(folder: JobFolder) -> float:
    """Return the time of the last write for this job; executors log that they lost their AM."""
    paths = [folder.am_log]
    with contextlib.suppress(OSError):
        paths += folder.logs.iterdir()
    times = [0.0]
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return min(max(times), clock.wall())


def _read_last_lines(path: Path) -> tuple[str, ...]:
    try:
        text = read_tail(path, _TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-_QUOTED_LINES:])
