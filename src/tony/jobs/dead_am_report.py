"""What a job came to whose application master died: its log, replayed, and a verdict."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tony import clock
from tony.core.application import Application
from tony.core.failure_text import EXIT_CODES
from tony.core.report_builder import ReportContext
from tony.core.report_builder import report as view
from tony.dataclass import replace
from tony.errors import ExitCode, RecordError, StorageError
from tony.history import event_log
from tony.history.job_record import pending_report
from tony.history.replay import replay
from tony.jobs.am_client import whereabouts
from tony.jobs.finalize_lost import timed_out_report
from tony.model.job_record import JobRecord
from tony.model.job_report import Failure, FailureClass, JobReport, TaskReport
from tony.model.layout import JobFolder
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.schedulers.interface import ApplicationStatus

#: Lines of the application master's own log that a verdict quotes.
_QUOTED = 10
#: Bytes of that log that are looked at for them.
_LOOKED_AT = 16 * 1024
_LOST = "lost with the application master"
_NEVER_RAN = (TaskState.PENDING, TaskState.REQUESTED)


def last_report(folder: JobFolder, record: JobRecord, sight: ApplicationStatus | None = None) -> JobReport:
    """The last report of a job whose application master is dead. Blocking: replays the whole log.

    Args:
        sight: what the scheduler says of the end, if it says something: its word counts where the log breaks off.
    """
    report = _last_report(folder, record)
    lost = report.failure
    if lost is None or lost.cause != "am-lost" or sight is None or sight.result is None:
        return report
    if sight.overdue:
        return timed_out_report(ended_with_the_job(report), sight.overdue)
    if sight.result is JobState.SUCCEEDED:
        tasks = tuple(_told(task, "the end of its record is missing") for task in report.tasks)
        return replace(report, state=JobState.SUCCEEDED, exit_code=int(ExitCode.SUCCEEDED), failure=None, tasks=tasks)
    reason = sight.note or f"the scheduler says that it was {sight.result.value}"
    if sight.result is JobState.KILLED:
        failure = replace(
            lost, failure_class=FailureClass.KILLED, cause="killed", reason=reason, others=(), tail=(), log=None
        )
        report = ended_with_the_job(report)
        return replace(report, state=JobState.KILLED, exit_code=int(ExitCode.KILLED), failure=failure)
    return replace(report, failure=replace(lost, reason=f"{reason} (the end of its record is missing)"))


def as_logged(folder: JobFolder, record: JobRecord) -> JobReport:
    """The job as the log here leaves it, without a verdict: for somebody who cannot be asked, and may live."""
    with contextlib.suppress(Exception):  # as in `last_report`; and of a log that is still to come there is nothing
        result = replay(record.job_id, record.spec, event_log.read(event_log.segments(folder.path)))
        if result.events:
            around = ReportContext(folder=str(folder.path), user=record.user, submitted=record.submitted, live={})
            return view(result.app, result.last_at, around)
    return pending_report(folder, record)


def _last_report(folder: JobFolder, record: JobRecord) -> JobReport:
    try:
        entries = event_log.read(event_log.segments(folder.path))
        result = replay(record.job_id, record.spec, entries)
    except RecordError as error:
        return _lost(folder, pending_report(folder, record), last_sign=0.0, note=f" Its event log is damaged: {error}")
    except Exception as error:  # a bug that our machine meets again in the log must not keep the job open for ever
        note = f" Its event log cannot be replayed ({type(error).__name__}: {error}), which is a bug of ours."
        return _lost(folder, pending_report(folder, record), last_sign=0.0, note=note)
    around = ReportContext(folder=str(folder.path), user=record.user, submitted=record.submitted, live={})
    if not result.events:
        return _lost(folder, pending_report(folder, record), last_sign=0.0)
    report = view(result.app, result.last_at, around)
    if result.app.state.final is not None:
        return _decided(result.app, report, result.last_wall)
    return _lost(folder, report, last_sign=result.last_wall)


def _decided(app: Application, report: JobReport, last_wall: float) -> JobReport:
    """The result was known, only the tidying up was not done: the result stands."""
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
        tasks=tuple(_ended(task, TaskState.STOPPED, "stopped at the job's end", ended) for task in report.tasks),
    )


def _lost(folder: JobFolder, report: JobReport, last_sign: float, note: str = "") -> JobReport:
    ended = max(last_sign, _last_change(folder), report.submitted or 0.0)
    who = f"the application master (pid {report.am.pid} on {report.am.host})" if report.am else "the application master"
    how = "died" if report.attempt or folder.am_log.exists() else "was never started"
    note += _without_supervisor(folder)
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        cause="am-lost",
        reason=f"{who} {how}, and the job with it; its own log is {folder.am_log}.{note}",
        session=report.session,
        at=max(0.0, ended - (report.submitted or ended)),
        host=report.am.host if report.am else None,
        tail=_last_lines(folder.am_log),
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
        tasks=tuple(_ended(task, TaskState.LOST, _LOST, ended) for task in report.tasks),
    )


def _without_supervisor(folder: JobFolder) -> str:
    """Why no other one followed, if that is because who would have seen to it was killed, too."""
    with contextlib.suppress(RecordError, StorageError):
        there = whereabouts(folder)
        if there and there.supervisor is not None:
            return f" Its supervisor (pid {there.supervisor}), which has the next one begin, was dead as well."
    return ""


def _ended(task: TaskReport, state: TaskState, note: str, at: float) -> TaskReport:
    if task.state in ENDED_TASK_STATES:
        return replace(task, pid=None, executor_pid=None)
    if task.state in _NEVER_RAN:
        state, note = TaskState.STOPPED, "never started"
    return replace(task, state=state, since=at, pid=None, executor_pid=None, last_output_age=None, note=note)


def ended_with_the_job(report: JobReport) -> JobReport:
    """The report of a job that somebody ended on purpose: its tasks were not lost, they were to end."""
    return replace(report, tasks=tuple(_told(task, "ended with the job") for task in report.tasks))


def _told(task: TaskReport, note: str) -> TaskReport:
    """It was not lost with its master, only its end is nowhere written. Others were lost before."""
    if task.state is not TaskState.LOST or task.note != _LOST:
        return task
    return replace(task, state=TaskState.STOPPED, note=note)


def _last_change(folder: JobFolder) -> float:
    """When something was last written for this job: executors write down that they lost their master."""
    paths = [folder.am_log]
    with contextlib.suppress(OSError):
        paths += folder.logs.iterdir()
    times = [0.0]
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return min(max(times), clock.wall())


def _last_lines(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOOKED_AT))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-_QUOTED:])
