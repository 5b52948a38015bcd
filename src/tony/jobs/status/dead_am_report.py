"""The final report of a job whose AM died: its log, replayed, and a failure."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from tony import clock
from tony.core.application import Application
from tony.core.report_builder import ReportContext
from tony.core.report_builder import build_report as view
from tony.errors import ExitCode, RecordError, StorageError
from tony.history import event_log
from tony.history.job_record import build_pending_report
from tony.history.replay import replay
from tony.jobs.am_client import locate_am
from tony.jobs.status.report_corrections import LOST_WITH_AM
from tony.linux.file_tail import read_tail
from tony.model.job_report import EXIT_CODES, Failure, FailureCause, FailureClass, JobReport, TaskReport
from tony.model.layout import JobFolder
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.model.submission_record import JobRecord

#: Lines of the AM's own log quoted in the failure.
_QUOTED_LINES = 10
#: Bytes read from the end of that log for them.
_TAIL_BYTES = 16 * 1024
_NEVER_RAN = (TaskState.PENDING, TaskState.REQUESTED)


def build_last_report(folder: JobFolder, record: JobRecord) -> JobReport:
    """Return the final report of a job whose AM is dead. Blocking: replays the whole log."""
    try:
        entries = event_log.read(event_log.segments(folder.path))
        result = replay(record.job_id, record.spec, entries)
    except RecordError as error:
        return _build_lost_report(
            folder, build_pending_report(folder, record), last_sign=0.0, note=f" Its event log is damaged: {error}"
        )
    except Exception as error:  # a bug that replaying hits again must not keep the job open forever
        note = f" Its event log cannot be replayed ({type(error).__name__}: {error}); this is a bug in tony."
        return _build_lost_report(folder, build_pending_report(folder, record), last_sign=0.0, note=note)
    context = ReportContext(folder=str(folder.path), user=record.user, submitted=record.submitted, live={})
    if not result.events:
        return _build_lost_report(folder, build_pending_report(folder, record), last_sign=0.0)
    report = view(result.app, result.last_at, context)
    if result.app.state.final is not None:
        return _complete_report(result.app, report, result.last_wall)
    return _build_lost_report(folder, report, last_sign=result.last_wall)


def _complete_report(app: Application, report: JobReport, last_wall: float) -> JobReport:
    """Complete the report of a job whose result was decided before the AM died during cleanup."""
    final = app.state.final
    assert final is not None
    ended = report.ended or last_wall
    code = ExitCode.SUCCEEDED if final.failure is None else EXIT_CODES[final.failure.failure_class]
    return replace(
        report,
        state=final.state,
        failure=final.failure,
        exit_code=int(code),
        am=None,
        waiting="",
        ended=ended,
        tasks=tuple(_end_task(task, TaskState.STOPPED, "stopped at the job's end", ended) for task in report.tasks),
    )


def _build_lost_report(folder: JobFolder, report: JobReport, last_sign: float, note: str = "") -> JobReport:
    ended = max(last_sign, _find_last_write_time(folder), report.submitted or 0.0)
    who = f"the application master (pid {report.am.pid} on {report.am.host})" if report.am else "the application master"
    how = "died" if report.attempt or folder.am_log.exists() else "was never started"
    note += _read_supervisor_note(folder)
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        cause=FailureCause.AM_LOST,
        reason=f"{who} {how}, and the job with it; AM log: {folder.am_log}.{note}",
        session=report.session,
        at=max(0.0, ended - (report.submitted or ended)),
        host=report.am.host if report.am else None,
        tail=_read_last_lines(folder.am_log),
        log=folder.am_log.name,
        others=(report.failure.reason, *report.failure.others) if report.failure else (),
    )
    return replace(
        report,
        state=JobState.FAILED,
        exit_code=int(ExitCode.INFRASTRUCTURE),
        failure=failure,
        am=None,
        waiting="",
        ended=ended,
        tasks=tuple(_end_task(task, TaskState.LOST, LOST_WITH_AM, ended) for task in report.tasks),
    )


def _read_supervisor_note(folder: JobFolder) -> str:
    """Return a note that the AM's supervisor, which would have restarted it, is dead too; empty if it is not."""
    with contextlib.suppress(RecordError, StorageError):
        location = locate_am(folder)
        if location and location.supervisor is not None:
            return f" Its supervisor (pid {location.supervisor}), which would have restarted it, is dead as well."
    return ""


def _end_task(task: TaskReport, state: TaskState, note: str, at: float) -> TaskReport:
    if task.state in ENDED_TASK_STATES:
        return replace(task, pid=None, executor_pid=None)
    if task.state in _NEVER_RAN:
        state, note = TaskState.STOPPED, "never started"
    return replace(task, state=state, since=at, pid=None, executor_pid=None, last_output_age=None, note=note)


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
