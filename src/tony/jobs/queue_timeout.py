"""`queue_timeout`: the most time that a job may wait for its application master.

Nothing of a job's own runs in that time, so whoever follows it looks at the clock, and ends it.
"""

from __future__ import annotations

import asyncio
import contextlib

from tony import clock
from tony.dataclass import replace
from tony.errors import ExitCode, InfraError
from tony.history.event_log import segments
from tony.history.job_record import pending_report, read_summary, write_summary
from tony.jobs.finalize_lost import lock_finalization
from tony.jobs.remote_jobs import forget_secrets
from tony.model.job_record import JobRecord
from tony.model.job_report import Failure, FailureClass, JobReport
from tony.model.layout import JobFolder
from tony.model.states import JobState, TaskState
from tony.schedulers.interface import Submitter
from tony.units import format_duration

#: Seconds that a scheduler may take to end what it was told to end.
_ENDING = 20.0
_LOOK_AGAIN = 0.2


class QueueLimit:
    """The limit of one job; none where masters run at once, on the submitter's own machine."""

    def __init__(self, folder: JobFolder, record: JobRecord, submitter: Submitter) -> None:
        self._folder, self._record, self._submitter = folder, record, submitter
        limit = record.spec.timeouts.queue
        self._limit = None if submitter.capabilities.same_host else limit

    def is_over(self, report: JobReport) -> bool:
        """Whether the job waits longer than it may. One whose master has run waits for something else."""
        return (
            self._limit is not None
            and report.state is JobState.SUBMITTED
            and report.attempt == 0
            and clock.wall() - self._record.submitted > self._limit
            and not self._folder.am.exists()
            and not segments(self._folder.path)
        )

    async def end(self, report: JobReport) -> None:
        """Ends the job, and closes its record: unless its master came up just then, which the next look tells.

        Args:
            report: how it stands.

        Raises:
            InfraError: the scheduler cannot be told.
            StorageError: the record cannot be written.
        """
        with lock_finalization(self._folder) as mine:
            if not mine or read_summary(self._folder) is not None:
                return
            reason = await self._reason(report)
            await self._submitter.withdraw(self._folder, reason)
            await self._wait_ended()
            with contextlib.suppress(InfraError):
                await self._submitter.fetch(self._folder)
            if segments(self._folder.path) or read_summary(self._folder) is not None:
                return
            write_summary(self._folder, self._ended(reason))
            forget_secrets(self._folder)

    async def _reason(self, report: JobReport) -> str:
        said = [report.waiting]
        with contextlib.suppress(InfraError):
            said.insert(0, await self._submitter.standing(self._record.job_id))
        limit = format_duration(self._limit or 0)
        where = "; ".join(part.rstrip(". ") for part in said if part)
        known = f": {where}" if where else ""
        return f"no application master ran within {limit} (queue_timeout) after the submission{known}"

    async def _wait_ended(self) -> None:
        give_up = clock.monotonic() + _ENDING
        while clock.monotonic() < give_up:
            with contextlib.suppress(InfraError):
                sight = await self._submitter.look(self._record.job_id)
                if sight is None or sight.alive is False:
                    return
            await asyncio.sleep(_LOOK_AGAIN)

    def _ended(self, reason: str) -> JobReport:
        wall = clock.wall()
        pending = pending_report(self._folder, self._record)
        failure = Failure(
            failure_class=FailureClass.INFRASTRUCTURE,
            cause="queue-timeout",
            reason=reason,
            session=0,
            at=max(0.0, wall - self._record.submitted),
        )
        tasks = [replace(task, state=TaskState.STOPPED, since=wall, note="never started") for task in pending.tasks]
        return replace(
            pending,
            state=JobState.FAILED,
            exit_code=int(ExitCode.INFRASTRUCTURE),
            failure=failure,
            ended=wall,
            tasks=tuple(tasks),
        )
