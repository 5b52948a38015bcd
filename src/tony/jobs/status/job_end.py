"""The end of a job that its AM did not write: finalized by a client, and corrected by scheduler and kill request."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from tony.errors import ExitCode
from tony.history.job_record import load_kill_request, read_summary, write_summary
from tony.linux.liveness_lock import try_lock
from tony.linux.thread_pools import to_thread
from tony.model.actor import Actor, ActorKind
from tony.model.failure import FailureCause, FailureClass
from tony.model.job_report import JobReport, TaskReport
from tony.model.state_directory import JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus, Submitter

#: Note of tasks that ended because their AM died.
LOST_WITH_AM = "lost with the application master"


def apply_kill_request(folder: JobFolder, report: JobReport) -> JobReport:
    """Apply a pending kill request, made while no AM answered, to the report."""
    request, failure = load_kill_request(folder), report.failure
    if request is None or failure is None or failure.cause is not FailureCause.AM_LOST:
        return report
    failure = replace(
        failure,
        failure_class=FailureClass.KILLED,
        cause=FailureCause.KILLED,
        reason=f"killed by {request.actor}",
        actor=Actor(request.actor),
        others=(failure.reason, *failure.others),
        tail=(),
    )
    report = _mark_tasks_stopped(report)
    return replace(report, state=JobState.KILLED, exit_code=int(ExitCode.KILLED), failure=failure)


def apply_scheduler_status(report: JobReport, status: ApplicationStatus) -> JobReport:
    """Apply the scheduler's report of the end; it decides where the event log breaks off."""
    lost = report.failure
    if lost is None or lost.cause is not FailureCause.AM_LOST or status.result is None:
        return add_signal_source(report, status)
    if status.overdue:
        return build_timed_out_report(_mark_tasks_stopped(report), status.overdue)
    if status.result is JobState.SUCCEEDED:
        tasks = tuple(_mark_stopped(task, "the end of its event log is missing") for task in report.tasks)
        return replace(report, state=JobState.SUCCEEDED, exit_code=int(ExitCode.SUCCEEDED), failure=None, tasks=tasks)
    reason = status.note or f"the scheduler reports that it was {status.result.value}"
    if status.result is JobState.KILLED:
        failure = replace(
            lost,
            failure_class=FailureClass.KILLED,
            cause=FailureCause.KILLED,
            reason=reason,
            others=(),
            tail=(),
            log=None,
        )
        report = _mark_tasks_stopped(report)
        return replace(report, state=JobState.KILLED, exit_code=int(ExitCode.KILLED), failure=failure)
    return replace(report, failure=replace(lost, reason=f"{reason} (the end of the event log is missing)"))


def was_killed_by_signal(report: JobReport) -> bool:
    """Return True if a job was killed by a signal to its AM, which cannot know the sender."""
    actor = report.failure.actor if report.failure else None
    return actor is not None and actor.kind is ActorKind.SIGNAL


def add_signal_source(report: JobReport, status: ApplicationStatus) -> JobReport:
    """Add the scheduler's explanation to the report, if the scheduler sent the signal to the AM.

    It either killed the job on request, or gave up the AM, which is a failure of the cluster, or enforced a time limit.
    """
    if report.failure is None or not was_killed_by_signal(report):
        return report
    if status.overdue:
        return build_timed_out_report(report, status.overdue)
    if status.given_up:
        reason = f"the scheduler has given up the application master{f': {status.note}' if status.note else ''}"
        failure = replace(
            report.failure,
            failure_class=FailureClass.INFRASTRUCTURE,
            cause=FailureCause.AM_LOST,
            reason=reason,
            actor=None,
        )
        return replace(report, state=JobState.FAILED, exit_code=int(ExitCode.INFRASTRUCTURE), failure=failure)
    if not status.note or status.result is not JobState.KILLED:
        return report
    return replace(
        report, failure=replace(report.failure, reason=status.note, actor=Actor(status.note, ActorKind.SCHEDULER))
    )


def build_timed_out_report(report: JobReport, limit: str) -> JobReport:
    """Return the report of a job that its scheduler ended because of a time limit: neither an accident nor a kill.

    Args:
        limit: one sentence.
    """
    assert report.failure is not None
    failure = replace(
        report.failure,
        failure_class=FailureClass.USER,
        cause=FailureCause.LIFETIME,
        reason=limit,
        actor=None,
        host=None,
        tail=(),
        log=None,
    )
    return replace(report, state=JobState.FAILED, exit_code=int(ExitCode.PROGRAM_FAILED), failure=failure)


def _mark_tasks_stopped(report: JobReport) -> JobReport:
    """Mark the tasks of a job that was ended deliberately as stopped instead of lost."""
    return replace(report, tasks=tuple(_mark_stopped(task, "ended with the job") for task in report.tasks))


def _mark_stopped(task: TaskReport, note: str) -> TaskReport:
    """Mark a task as stopped if it was counted as lost with the AM; tasks lost earlier are unchanged."""
    if task.state is not TaskState.LOST or task.note != LOST_WITH_AM:
        return task
    return replace(task, state=TaskState.STOPPED, note=note)


async def close_lost(
    folder: JobFolder, record: JobRecord, submitter: Submitter, status: ApplicationStatus | None = None
) -> JobReport | None:
    """Clean up after a dead AM and write the job's final report.

    Safe to call concurrently: one caller does it; the others get None and must poll again.

    Args:
        status: the scheduler's report of the end, if any.

    Raises:
        StorageError: the summary cannot be written.
    """
    # A running AM holds this lock: meanwhile none can start, and no other process finalizes the job.
    with try_lock(folder.am_lock) as is_locked:
        if not is_locked:
            return None
        known = read_summary(folder)
        if known is not None:
            return known
        await submitter.sweep(folder)
        # Late: rarely needed, and it loads the state machine.
        from tony.jobs.status.report_from_log import build_last_report

        report = await to_thread(build_last_report, folder, record)
        report = apply_scheduler_status(report, status) if status else apply_kill_request(folder, report)
        remove_secrets(folder)
        write_summary(folder, report)
        remove_secrets(folder)  # again: another process may have fetched them in between
        return report


def remove_secrets(folder: JobFolder) -> None:
    """Remove credentials and files that are needed only while the job runs."""
    import shutil  # late: it loads every compressor

    shutil.rmtree(folder.secret, ignore_errors=True)
    for path in folder.transient_files:
        with contextlib.suppress(OSError):
            path.unlink()
