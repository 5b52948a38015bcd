"""Finalize a job whose AM died: done once, by the next client that reads its status."""

from __future__ import annotations

import contextlib

from tony.history.job_record import read_summary, write_summary
from tony.jobs.status.report_corrections import apply_kill_request, apply_scheduler_status
from tony.linux.liveness_lock import try_lock
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.layout import JobFolder
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
    # A running AM holds this lock: meanwhile none can start, and no other process finalizes the job.
    with try_lock(folder.am_lock) as is_locked:
        if not is_locked:
            return None
        known = read_summary(folder)
        if known is not None:
            return known
        await submitter.sweep(folder)
        # Late: rarely needed, and it loads the state machine.
        from tony.jobs.status.dead_am_report import build_last_report

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
