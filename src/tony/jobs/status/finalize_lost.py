"""Finalize a job whose AM died: done once, by the next client that reads its status."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tony.errors import ExitCode
from tony.history.job_record import read_summary, write_summary
from tony.history.kill_request import load_kill_request
from tony.linux.thread_pools import to_thread
from tony.model.actor import Actor, ActorKind
from tony.model.job_report import FailureCause, FailureClass, JobReport
from tony.model.layout import JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus, Submitter


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
    with lock_finalization(folder) as is_locked:
        if not is_locked:
            return None
        known = read_summary(folder)
        if known is not None:
            return known
        await submitter.sweep(folder)
        # Late: rarely needed, and it loads the state machine.
        from tony.jobs.status.dead_am_report import build_last_report, mark_tasks_stopped

        report = await to_thread(build_last_report, folder, record, status)
        report = add_signal_source(report, status) if status else _apply_kill_request(folder, report)
        if report.state is JobState.KILLED:
            report = mark_tasks_stopped(report)
        _remove_secrets(folder)
        write_summary(folder, report)
        _remove_secrets(folder)  # again: another process may have fetched them in between
        return report


def _apply_kill_request(folder: JobFolder, report: JobReport) -> JobReport:
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
    return replace(report, state=JobState.KILLED, exit_code=int(ExitCode.KILLED), failure=failure)


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


@contextmanager
def lock_finalization(folder: JobFolder) -> Iterator[bool]:
    """Try to hold the lock that a running AM holds; yields True if held: no AM can start and no one else finalizes."""
    lock = os.open(folder.am_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def _remove_secrets(folder: JobFolder) -> None:
    import shutil  # late: it loads every compressor

    shutil.rmtree(folder.secret, ignore_errors=True)
    for path in (folder.am, folder.am_socket, folder.kill_request):
        with contextlib.suppress(OSError):
            path.unlink()
