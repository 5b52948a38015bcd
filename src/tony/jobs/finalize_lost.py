"""Closing the record of a job whose application master died: done once, by whoever reads it next."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tony.dataclass import replace
from tony.errors import ExitCode
from tony.history.job_record import read_summary, write_summary
from tony.history.kill_request import load_kill_request
from tony.linux.threads import to_thread
from tony.model.job_record import JobRecord
from tony.model.job_report import FailureClass, JobReport
from tony.model.layout import JobFolder
from tony.model.states import JobState
from tony.schedulers.interface import ApplicationStatus, Submitter


async def close_lost(
    folder: JobFolder, record: JobRecord, submitter: Submitter, sight: ApplicationStatus | None = None
) -> JobReport | None:
    """Ends what a dead application master left behind and writes the job's last report.

    May be called by many at once: one does it, and the others get None and look again.

    Args:
        sight: what the scheduler says of the end, if it says something.

    Raises:
        StorageError: the record cannot be written.
    """
    with lock_finalization(folder) as mine:
        if not mine:
            return None
        known = read_summary(folder)
        if known is not None:
            return known
        await submitter.sweep(folder)
        # Seldom needed, and it loads the whole machine: those who only ask how a job stands do without.
        from tony.jobs.dead_am_report import ended_with_the_job, last_report

        report = await to_thread(last_report, folder, record, sight)
        report = add_signal_source(report, sight) if sight else _as_asked(folder, report)
        if report.state is JobState.KILLED:
            report = ended_with_the_job(report)
        _remove_secrets(folder)
        write_summary(folder, report)
        _remove_secrets(folder)  # once more: somebody who looked in between may have fetched them again
        return report


def _as_asked(folder: JobFolder, report: JobReport) -> JobReport:
    """The report of a job that somebody had wanted to end when no application master answered any more."""
    request, failure = load_kill_request(folder), report.failure
    if request is None or failure is None or failure.cause != "am-lost":
        return report
    failure = replace(
        failure,
        failure_class=FailureClass.KILLED,
        cause="killed",
        reason=f"killed by {request.actor}",
        others=(failure.reason, *failure.others),
        tail=(),
    )
    return replace(report, state=JobState.KILLED, exit_code=int(ExitCode.KILLED), failure=failure)


def was_killed_by_signal(report: JobReport) -> bool:
    """Whether a job was killed through its application master, which cannot know who sent the signal."""
    reason = report.failure.reason if report.failure else ""
    return report.state is JobState.KILLED and reason.startswith("killed by signal ")


def add_signal_source(report: JobReport, sight: ApplicationStatus) -> JobReport:
    """The report with the scheduler's words in it, if it was the scheduler that sent the signal.

    It was told to end the job; or it has given the master up, which is nobody's wish, but a failure of the cluster;
    or a limit of time that it keeps was over.
    """
    if report.failure is None or not was_killed_by_signal(report):
        return report
    if sight.overdue:
        return timed_out_report(report, sight.overdue)
    if sight.given_up:
        reason = f"the scheduler has given up the application master{f': {sight.note}' if sight.note else ''}"
        failure = replace(report.failure, failure_class=FailureClass.INFRASTRUCTURE, cause="am-lost", reason=reason)
        return replace(report, state=JobState.FAILED, exit_code=int(ExitCode.INFRASTRUCTURE), failure=failure)
    if not sight.note or sight.result is not JobState.KILLED:
        return report
    return replace(report, failure=replace(report.failure, reason=sight.note))


def timed_out_report(report: JobReport, limit: str) -> JobReport:
    """The report of a job that its scheduler has ended for a limit of time: that is no accident, and nobody's wish.

    Args:
        limit: in a sentence.
    """
    assert report.failure is not None
    failure = replace(
        report.failure, failure_class=FailureClass.USER, cause="lifetime", reason=limit, host=None, tail=(), log=None
    )
    return replace(report, state=JobState.FAILED, exit_code=int(ExitCode.PROGRAM_FAILED), failure=failure)


@contextmanager
def lock_finalization(folder: JobFolder) -> Iterator[bool]:
    """Holds the lock that a living application master holds: none can come up, and nobody else closes the record."""
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
