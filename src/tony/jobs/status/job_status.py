"""The status of a job, from its running AM, its summary or its record.

*Missing is not finished.* A job without a summary has not ended, so its AM is queried. If that is dead, the job is
finalized with a failure that says so; if nothing can be found out, that is an error, never an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from tony import clock
from tony.errors import ConnectionFailedError, InfraError, SchedulerError
from tony.history import event_log
from tony.history.job_record import build_pending_report, read_summary, record_of
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS, describe_delay, request_report
from tony.jobs.status import remote_job_sync
from tony.jobs.status.job_end import close_lost
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.retry import Backoff
from tony.schedulers import registry
from tony.schedulers.client_interface import Submitter

#: Seconds, at most, from submission to the first sign of the AM.
_SUBMISSION_SECONDS = 30.0
#: Seconds, at most, from the creation of its lock file to its first event.
_FIRST_EVENT_SECONDS = 2.0
#: Seconds; a connection that breaks sooner may be one to an AM that is just exiting, so it is tried once more.
PROMPT_FAILURE_SECONDS = 1.0
#: Seconds between two polls of a job that is starting, ending, or being finalized by another process.
_POLL_SECONDS = 0.02
#: On other machines polls cost more, so pauses grow.
_REMOTE_BACKOFF = Backoff(first=_POLL_SECONDS, factor=1.3, most=0.3)


async def load_report(home: Home, job_id: str, timeout: float | None = None) -> JobReport:
    """Return the status of a job.

    If its AM died, the job is finalized first and its final report returned. If another AM attempt follows, wait for
    it.

    Args:
        timeout: seconds to wait for a reachable AM; default `ANSWER_TIMEOUT_SECONDS`.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailedError: its AM is alive, but cannot be reached or does not answer.
    """
    folder = home.job(job_id)
    record: JobRecord | None = None
    submitter: Submitter | None = None
    broken = False
    pauses = iter(_REMOTE_BACKOFF)
    deadline = clock.monotonic() + (ANSWER_TIMEOUT_SECONDS if timeout is None else timeout)
    while True:
        ended = read_summary(folder)
        if ended is not None:
            return ended
        record = record or record_of(home, job_id)
        submitter = submitter or registry.load_submitter(home, record)
        started_at = clock.monotonic()
        try:
            found = await _poll(folder, record, submitter)
        except ConnectionFailedError:
            if broken or clock.monotonic() - started_at > PROMPT_FAILURE_SECONDS:
                raise
            broken, found = True, None
        if found is not None:
            return found
        if clock.monotonic() > deadline:
            if not submitter.capabilities.same_host:
                return await remote_job_sync.report_unanswered(folder, record, submitter)
            raise ConnectionFailedError(
                f"the application master of {job_id} is alive but does not answer; see {folder.am_log}",
                no_listener=True,
            )
        await asyncio.sleep(_POLL_SECONDS if submitter.capabilities.same_host else next(pauses))


async def _poll(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport | None:
    """Poll once; return None if the job is changing state right now and must be polled again."""
    if not submitter.capabilities.same_host:
        return await remote_job_sync.poll_job(folder, record, submitter)
    if _is_being_submitted(folder, record):
        return build_pending_report(folder, record)
    if submitter.am_alive(folder) is False:
        return await close_lost(folder, record, submitter)
    try:
        return await request_report(folder)
    except ConnectionFailedError as error:
        if not error.no_listener:
            raise
    stopped = describe_delay(folder)
    if stopped is not None:
        raise stopped
    return None if event_log.segments(folder.path) else build_pending_report(folder, record)


def _is_being_submitted(folder: JobFolder, record: JobRecord) -> bool:
    """Return True if an AM may be about to start: the job is new, and there is no trace of an AM."""
    try:
        since, timeout = folder.am_lock.stat().st_mtime, _FIRST_EVENT_SECONDS
    except FileNotFoundError:
        since, timeout = record.submitted, _SUBMISSION_SECONDS
    # abs(): a clock that was set back must not make this true for as long as it was set back.
    return abs(clock.wall() - since) < timeout and not event_log.segments(folder.path)


async def load_last_known_report(home: Home, job_id: str, error: InfraError) -> JobReport:
    """Return the last known status of a job.

    Args:
        error: its AM does not answer, or its scheduler.

    Raises:
        UnknownJobError: there is no such job.
    """
    folder, record = home.job(job_id), record_of(home, job_id)
    trouble, fresh = "its scheduler cannot be asked", False
    if not isinstance(error, SchedulerError):
        trouble = "its application master does not answer"
        with contextlib.suppress(InfraError):
            await registry.load_submitter(home, record).fetch(folder)
            fresh = True
    report = await to_thread(remote_job_sync.load_cached_report, folder, record, fresh=fresh)
    return replace(report, waiting=f"{trouble}; showing the last known status")


def add_stop_hint(home: Home, job_id: str, error: ConnectionFailedError) -> ConnectionFailedError:
    """Add to the error what will happen to a job on another machine whose AM is alive but does not answer."""
    try:
        is_local = registry.load_submitter(home, record_of(home, job_id)).capabilities.same_host
    except InfraError:
        return error
    if is_local or error.no_listener:
        return error
    return ConnectionFailedError(
        f"{error}. User programs continue without it. If it stays silent, the scheduler starts another AM attempt "
        f"after a while; `tony kill {job_id}` ends the job in any case."
    )
