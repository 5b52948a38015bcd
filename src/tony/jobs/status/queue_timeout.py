"""`queue_timeout`: the most time that a job may wait for its AM.

No process of the job runs during that time, so its followers check the limit and end the job.
"""

from __future__ import annotations

import asyncio
import contextlib

from tony import clock
from tony.errors import InfraError
from tony.history.event_log import segments
from tony.history.job_record import build_pending_report, read_summary, write_summary
from tony.jobs.status.remote_job_sync import forget_secrets
from tony.linux.liveness_lock import try_lock
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, end_report
from tony.model.state_directory import JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import Submitter
from tony.units import format_duration

#: Seconds to wait for the scheduler to end a job.
_END_TIMEOUT_SECONDS = 20.0
_POLL_SECONDS = 0.2


class QueueLimit:
    """The limit of one job; none on schedulers that start the AM immediately, on the submitter's machine."""

    def __init__(self, folder: JobFolder, record: JobRecord, submitter: Submitter) -> None:
        self._folder, self._record, self._submitter = folder, record, submitter
        limit = record.spec.timeouts.queue
        self._limit = None if submitter.capabilities.same_host else limit

    def is_exceeded(self, report: JobReport) -> bool:
        """Return True if the job has waited for its first AM longer than allowed."""
        return (
            self._limit is not None
            and report.state is JobState.SUBMITTED
            and report.attempt == 0
            and clock.wall() - self._record.submitted > self._limit
            and not self._folder.am.exists()
            and not segments(self._folder.path)
        )

    async def end(self, report: JobReport) -> None:
        """End the job and write its summary. Does nothing if its AM has just started, which the next poll reports.

        Args:
            report: its status.

        Raises:
            InfraError: the scheduler cannot be reached.
            StorageError: the summary cannot be written.
        """
        with try_lock(self._folder.am_lock) as is_locked:
            if not is_locked or read_summary(self._folder) is not None:
                return
            reason = await self._find_reason(report)
            await self._submitter.withdraw(self._folder, reason)
            await self._wait_ended()
            with contextlib.suppress(InfraError):
                await self._submitter.fetch(self._folder)
            if segments(self._folder.path) or read_summary(self._folder) is not None:
                return
            write_summary(self._folder, self._build_final_report(reason))
            forget_secrets(self._folder)

    async def _find_reason(self, report: JobReport) -> str:
        parts = [report.waiting]
        with contextlib.suppress(InfraError):
            parts.insert(0, await self._submitter.queue_position(self._record.job_id))
        limit = format_duration(self._limit or 0)
        where = "; ".join(part.rstrip(". ") for part in parts if part)
        known = f": {where}" if where else ""
        return f"no application master was started within {limit} (queue_timeout) of submission{known}"

    async def _wait_ended(self) -> None:
        deadline = clock.monotonic() + _END_TIMEOUT_SECONDS
        while clock.monotonic() < deadline:
            with contextlib.suppress(InfraError):
                status = await self._submitter.application_status(self._record.job_id)
                if status is None or status.alive is False:
                    return
            await asyncio.sleep(_POLL_SECONDS)

    def _build_final_report(self, reason: str) -> JobReport:
        wall = clock.wall()
        pending = build_pending_report(self._folder, self._record)
        failure = Failure(
            failure_class=FailureClass.INFRASTRUCTURE,
            cause=FailureCause.QUEUE_TIMEOUT,
            reason=reason,
            session=0,
            at=max(0.0, wall - self._record.submitted),
        )
        return end_report(pending, failure, at=wall, note="never started")
