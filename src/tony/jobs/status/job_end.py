"""The end of a job that its AM did not write: finalized by a client, and corrected by scheduler and kill request."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from tony.history.job_record import KillRequest, read_summary, write_summary
from tony.linux.liveness_lock import try_lock
from tony.linux.thread_pools import to_thread
from tony.model.actor import Actor, ActorKind
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, change_result
from tony.model.state_directory import JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus, Submitter

#: How tasks ended whose AM died, and no other one continued the job.
LOST_NOTE = "lost with the application master"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutcome:
    """The result of a job whose AM died before it decided one.

    Attributes:
        failure: None if the job succeeded.
        note: how the tasks ended that had been started.
        task_state: their state.
    """

    failure: Failure | None
    note: str = "ended with the job"
    task_state: TaskState = TaskState.STOPPED


def explain_loss(lost: Failure, status: ApplicationStatus | None, request: KillRequest | None) -> LossOutcome:
    """Return the result of a job whose event log breaks off.

    Args:
        lost: its failure if nothing else is known.
        status: the scheduler's report of the end, which decides.
        request: a kill request that was made while no AM answered.
    """
    if status is None and request is not None:
        killed = replace(
            lost,
            failure_class=FailureClass.KILLED,
            cause=FailureCause.KILLED,
            reason=f"killed by {request.actor}",
            actor=Actor(request.actor),
            others=(lost.reason, *lost.others),
            tail=(),
        )
        return LossOutcome(failure=killed)
    if status is not None and status.result is not None:
        if status.overdue:
            return LossOutcome(failure=_build_timeout_failure(lost, status.overdue))
        if status.result is JobState.SUCCEEDED:
            return LossOutcome(failure=None, note="the end of its event log is missing")
        reason = status.note or f"the scheduler reports that it was {status.result.value}"
        if status.result is JobState.KILLED:
            killed = replace(
                lost,
                failure_class=FailureClass.KILLED,
                cause=FailureCause.KILLED,
                reason=reason,
                others=(),
                tail=(),
                log=None,
            )
            return LossOutcome(failure=killed)
        lost = replace(lost, reason=f"{reason} (the end of the event log is missing)")
    elif status is not None and status.given_up and status.note:
        lost = replace(lost, reason=f"{lost.reason} The scheduler reports: {status.note}")
    return LossOutcome(failure=lost, note=LOST_NOTE, task_state=TaskState.LOST)


def was_killed_by_signal(report: JobReport) -> bool:
    """Return True if a job was killed by a signal to its AM, which cannot know the sender."""
    actor = report.failure.actor if report.failure else None
    return actor is not None and actor.kind is ActorKind.SIGNAL


def was_ended_by_scheduler(report: JobReport) -> bool:
    """Return True if the scheduler ended the job, or may have: then it kills the AM, which is rarely quick enough to
    remove what it has stored."""
    failure = report.failure
    if failure is None:
        return False
    by_scheduler = failure.actor is not None and failure.actor.kind in (ActorKind.SIGNAL, ActorKind.SCHEDULER)
    return by_scheduler or failure.cause in (FailureCause.LIFETIME, FailureCause.AM_LOST)


def add_signal_source(report: JobReport, status: ApplicationStatus) -> JobReport:
    """Add the scheduler's explanation to the report, if the scheduler sent the signal to the AM.

    It either killed the job on request, or gave up the AM, which is a failure of the cluster, or enforced a time limit.
    """
    if report.failure is None or not was_killed_by_signal(report):
        return report
    if status.overdue:
        return change_result(report, _build_timeout_failure(report.failure, status.overdue))
    if status.given_up:
        reason = f"the scheduler has given up the application master{f': {status.note}' if status.note else ''}"
        failure = replace(
            report.failure,
            failure_class=FailureClass.INFRASTRUCTURE,
            cause=FailureCause.AM_LOST,
            reason=reason,
            actor=None,
        )
        return change_result(report, failure)
    source = status.note if status.result is JobState.KILLED else status.deletion
    if not source:
        return report
    return replace(report, failure=replace(report.failure, reason=source, actor=Actor(source, ActorKind.SCHEDULER)))


def _build_timeout_failure(failure: Failure, limit: str) -> Failure:
    """Return the failure of a job that its scheduler ended because of a time limit: neither an accident nor a kill.

    Args:
        limit: one sentence.
    """
    return replace(
        failure,
        failure_class=FailureClass.USER,
        cause=FailureCause.LIFETIME,
        reason=limit,
        actor=None,
        host=None,
        tail=(),
        log=None,
    )


async def close_lost(
    folder: JobFolder, record: JobRecord, submitter: Submitter | None, status: ApplicationStatus | None = None
) -> JobReport | None:
    """Clean up after a dead AM and write the job's final report.

    Safe to call concurrently: one caller does it; the others get None and must poll again.

    Args:
        submitter: None if the cluster is gone, so that nothing is left to clean up there.
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
        if submitter:
            await submitter.sweep(folder)
        from tony.jobs.status.report_from_log import build_last_report  # late: it loads the state machine

        report = await to_thread(build_last_report, folder, record, status)
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
