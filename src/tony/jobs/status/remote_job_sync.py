"""Jobs whose AM runs on another machine: asks it and the scheduler, and keeps the local job directory up to date.

The directory has the same files as that of a local job: `am.json` is written as soon as the scheduler knows where the
AM is; event log and summary are fetched; the last report received by a follower is cached as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import replace

from tony import clock
from tony.errors import (
    ConnectionFailedError,
    InfraError,
    ProtocolError,
    StorageError,
    UnrecordedJobError,
    get_first_line,
)
from tony.history.event_log import segments
from tony.history.event_queries import read_session_reasons
from tony.history.job_record import build_pending_report, read_summary, record_of, write_summary
from tony.history.json_files import read_if_valid, write_json
from tony.jobs.am_client import AmLocation, locate_am, request_report
from tony.jobs.state_dir import prepare
from tony.jobs.status import aborted_submissions
from tony.jobs.status.job_end import (
    add_signal_source,
    close_lost,
    remove_secrets,
    was_ended_by_scheduler,
    was_killed_by_signal,
)
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord
from tony.retry import Backoff
from tony.schedulers import registry
from tony.schedulers.client_interface import ApplicationStatus, Submitter

#: Seconds that an AM may take to write the end of its job directory after it has reported it.
_END_TIMEOUT_SECONDS = 20.0
#: Between two looks at a job that is ending.
_END_BACKOFF = Backoff(first=0.1, most=1.0)
#: Seconds before each attempt to read what an AM has only just written.
_LOG_RETRY_SECONDS = (0.0, 0.5, 1.0)
#: Seconds to wait for the scheduler to locate an AM; then the AM is queried at its last address.
_SCHEDULER_TIMEOUT_SECONDS = 1.0


async def poll_job(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport | None:
    """Return the job's status; None if it is changing right now and must be polled again.

    Raises:
        SchedulerError: neither the scheduler nor the AM can be reached.
        ConnectionFailedError: the AM is running, but cannot be reached.
    """
    submitting = aborted_submissions.is_under_way(folder.home, folder.job_id)
    status = await _query_scheduler(folder, submitter)
    if isinstance(status, JobReport):
        return status
    if submitting and not status.address:  # unknown to the scheduler does not mean ended
        return replace(build_pending_report(folder, record), waiting="it is being submitted")
    if status.alive is False:
        return await _report_ended(folder, record, submitter, status)
    if not status.address:
        return await _report_unregistered(folder, record, submitter, status)
    note_master(folder, status)
    if not folder.credentials.exists():
        await submitter.fetch(folder)
        if read_summary(folder) is not None:  # it has ended meanwhile, and another process has removed them
            forget_secrets(folder)
            return None
    try:
        report = await request_report(folder)
    except ConnectionFailedError as error:
        if not error.no_listener:
            raise
        return None
    if was_killed_by_signal(report):  # the AM is exiting; then the scheduler tells who sent the signal
        return None
    cache_report(folder, report)
    return replace(report, folder=str(folder.path))


async def _query_scheduler(folder: JobFolder, submitter: Submitter) -> ApplicationStatus | JobReport:
    """Return the scheduler's status; if it is unreachable or slow, a report of a known AM or the summary."""
    query = asyncio.get_running_loop().create_task(submitter.application_status(folder.job_id))
    without = asyncio.get_running_loop().create_task(_query_without_scheduler(folder, submitter, query))
    try:
        await asyncio.wait([query, without], return_when=asyncio.FIRST_COMPLETED)
        if without.done() or query.exception():
            report = await without
            if report is not None:
                return report
        status = await query
        assert status is not None
        return status
    finally:
        for task in (query, without):
            task.cancel()
        await asyncio.gather(query, without, return_exceptions=True)


async def _query_without_scheduler(
    folder: JobFolder, submitter: Submitter, query: asyncio.Task[ApplicationStatus | None]
) -> JobReport | None:
    """Return a report from the AM or the summary if the scheduler does not answer in time; None without one."""
    location = locate_am(folder)
    if location and location.dialed_by:  # the AM is reached through the scheduler, as is what it has stored
        return None
    await asyncio.wait([query], timeout=_SCHEDULER_TIMEOUT_SECONDS)
    if query.done() and not query.cancelled() and not query.exception():
        return None
    report = await _query_am(folder)
    if report is None:
        with contextlib.suppress(InfraError):
            await submitter.fetch(folder)
        ended = read_summary(folder)
        report = keep(folder, ended) if ended else await _query_am(folder)
    return report


async def _query_am(folder: JobFolder) -> JobReport | None:
    """Return the report of a known AM; None if it does not answer, or was just killed by a signal."""
    try:
        report = await request_report(folder)
    except (ConnectionFailedError, ProtocolError):
        return None
    return None if was_killed_by_signal(report) else replace(report, folder=str(folder.path))


async def _report_unregistered(
    folder: JobFolder, record: JobRecord, submitter: Submitter, status: ApplicationStatus
) -> JobReport:
    """Return the status of a running job whose AM has not registered with the scheduler, or not again after a restart
    of either."""
    location, trouble = locate_am(folder), ""
    if status.attempt > 1 or location:
        trouble = await _fetch(folder, submitter)
    if not segments(folder.path) and not folder.am.exists():
        return replace(
            build_pending_report(folder, record), waiting=status.note or "waiting for its application master"
        )
    report = await _query_am(folder)
    if report is None:
        report = await to_thread(load_cached_report, folder, record, fresh=not trouble)
        if report.state.ended:
            return report
        before = max(1, report.attempt, location.attempt if location else 0)
        waiting = status.note
        if status.attempt > before:
            died = f"AM attempt {status.attempt - 1} died; waiting for AM attempt {status.attempt}"
            report = replace(report, attempt=status.attempt, am=None)
            waiting = f"{died}: {status.note}" if status.note else died
        elif not waiting and status.attempt > 1:
            waiting = f"waiting for AM attempt {status.attempt}"
        report = replace(report, waiting=(waiting or "waiting for its application master to register again") + trouble)
    return report


async def _fetch(folder: JobFolder, submitter: Submitter) -> str:
    """Fetch the job directory; return a sentence if that fails."""
    try:
        await submitter.fetch(folder)
    except InfraError as error:
        return f". Its job directory cannot be read ({get_first_line(error)}); showing the last known status"
    return ""


async def report_unanswered(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport:
    """Return the job's last known status, from its event log: its AM does not listen, and its end is not known yet.

    The AM may be still writing the end of the job directory, have died with its node, or be started again.
    """
    trouble, status = await _fetch(folder, submitter), None
    with contextlib.suppress(InfraError, TimeoutError):
        async with asyncio.timeout(_SCHEDULER_TIMEOUT_SECONDS):
            status = await submitter.application_status(folder.job_id)
    if ended := read_summary(folder):
        return _keep_summary(folder, ended, status)
    report = await to_thread(load_cached_report, folder, record, fresh=not trouble)
    if report.state.ended:
        return report
    location = locate_am(folder)
    where = f" at {location.address.removeprefix('tls:')}" if location else ""
    waiting = f"its application master no longer listens{where}, and its end has not been reported yet"
    return replace(report, waiting=f"{status.note if status and status.note else waiting}{trouble}")


def load_cached_report(folder: JobFolder, record: JobRecord, *, fresh: bool) -> JobReport:
    """Return the newer of the replayed log and the cached report. Blocking: replays the whole log.

    Args:
        fresh: the local log is as new as the remote one that it is a copy of.
    """
    from tony.jobs.status.report_from_log import report_as_logged  # late: it loads the state machine

    logged, cached = report_as_logged(folder, record), read_if_valid(folder.heard, JobReport)
    if cached is None:
        return logged
    newer = (cached.attempt, cached.session), (logged.attempt, logged.session)
    if newer[0] > newer[1] or (newer[0] == newer[1] and not fresh):
        return replace(cached, folder=str(folder.path))
    return replace(logged, submitted=cached.submitted)  # by the scheduler's clock, as in every report of its AM


def cache_report(folder: JobFolder, report: JobReport) -> None:
    """Cache a report of a job on another machine; failing to do so is not an error."""
    with contextlib.suppress(StorageError):
        write_json(folder.heard, to_plain(report))


def note_master(folder: JobFolder, status: ApplicationStatus) -> None:
    """Write down where the AM is, if that has changed."""
    location = AmLocation(
        pid=0, host=status.host, attempt=status.attempt, address=status.address, dialed_by=status.dialed_by
    )
    if locate_am(folder) != location:
        write_json(folder.am, to_plain(location))


async def build_last_am_report(folder: JobFolder, submitter: Submitter, report: JobReport) -> JobReport:
    """Return the final report of an AM, with the scheduler's explanation if a signal ended the job."""
    if was_ended_by_scheduler(report):
        with contextlib.suppress(InfraError, TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_SECONDS):
                for pause in _END_BACKOFF:
                    status = await submitter.application_status(folder.job_id)
                    if status is None or status.alive is False:
                        break
                    await asyncio.sleep(pause)
                report = add_signal_source(report, status) if status else report
                await submitter.sweep(folder)
    return keep(folder, report)


def keep(folder: JobFolder, report: JobReport) -> JobReport:
    """Write the final report received from the AM to the local directory."""
    report = replace(report, folder=str(folder.path))
    forget_secrets(folder)
    if read_summary(folder) is None:
        write_summary(folder, report)
    forget_secrets(folder)  # again: another process may have fetched them in between
    return report


def _keep_summary(folder: JobFolder, ended: JobReport, status: ApplicationStatus | None) -> JobReport:
    """Return a summary that was fetched, with the scheduler's explanation if a signal ended the job."""
    known = add_signal_source(ended, status) if status else ended
    if known != ended:
        write_summary(folder, known)
    return keep(folder, known)


def forget_secrets(folder: JobFolder) -> None:
    """Remove what is needed only while the job runs, with the lock, which no AM of another machine holds."""
    remove_secrets(folder)
    with contextlib.suppress(OSError):
        folder.am_lock.unlink()


async def refresh(home: Home, job_id: str) -> bool:
    """Fetch a job's event log as far as it is written; if the job has ended, wait until it is complete.

    If nothing can be fetched, files fetched earlier can still be read.

    Returns:
        True if the job has ended, and nothing of it is missing here.

    Raises:
        UnknownJobError: there is no such job.
        SchedulerError: nothing can be fetched, and there is no local copy.
    """
    folder, record = home.job(job_id), record_of(home, job_id)
    submitter = registry.load_submitter(home, record)
    if submitter.capabilities.same_host or folder.am_log.exists():  # the AM's log is written after everything else
        return True
    deadline = clock.monotonic() + _END_TIMEOUT_SECONDS
    try:
        for pause in _END_BACKOFF:
            status = await _fetch_with_status(folder, submitter)
            if folder.summary.exists():
                forget_secrets(folder)
            finished = status is None or status.alive is False or folder.am_log.exists()
            if finished or not folder.summary.exists() or clock.monotonic() > deadline:
                return finished
            await asyncio.sleep(pause)
    except InfraError:
        if not segments(folder.path):
            raise
    return False


async def _fetch_with_status(folder: JobFolder, submitter: Submitter) -> ApplicationStatus | None:
    """Fetch the job directory; return the scheduler's status, `alive=None` if only the scheduler is unreachable."""
    query = asyncio.get_running_loop().create_task(submitter.application_status(folder.job_id))
    try:
        await asyncio.wait([query], timeout=_SCHEDULER_TIMEOUT_SECONDS)
        if not query.done() or query.exception():
            await submitter.fetch(folder)
            if segments(folder.path):
                return ApplicationStatus(alive=None)
        status = await query
        await submitter.fetch(folder)  # after the status: what had ended by then is complete
        return status
    finally:
        query.cancel()
        await asyncio.gather(query, return_exceptions=True)


async def load_session_reasons(home: Home, job_id: str, last: int, *, ended: bool = False) -> dict[int, str]:
    """Return why each session up to `last` started, as far as known. The log of a remote job lags behind.

    Args:
        ended: the job has ended, so nothing more will be written.
    """
    folder = home.job(job_id)
    submitter = registry.load_submitter(home, record_of(home, job_id))
    pauses = () if submitter.capabilities.same_host else _LOG_RETRY_SECONDS[:1] if ended else _LOG_RETRY_SECONDS
    reasons = await to_thread(read_session_reasons, folder)
    for pause in pauses:
        if reasons.keys() >= set(range(2, last + 1)):
            break
        await asyncio.sleep(pause)
        with contextlib.suppress(InfraError):
            await refresh(home, job_id)
        reasons = await to_thread(read_session_reasons, folder)
    return reasons


async def adopt(home: Home, job_id: str) -> bool:
    """Create a local directory for a job submitted elsewhere, if a scheduler knows its id; return True if it does.

    Raises:
        UnrecordedJobError: the scheduler knows the job, but it has no job directory; the message says its status.
        SchedulerError: the scheduler cannot be reached.
    """
    owner = registry.find_owner(job_id)
    if owner is None:
        return False
    folder, submitter = home.job(job_id), registry.load(owner).create_submitter(home)
    prepare(home)
    folder.path.mkdir(mode=0o700, exist_ok=True)
    try:
        await submitter.fetch(folder)
    finally:
        if not folder.job.exists():
            shutil.rmtree(folder.path, ignore_errors=True)
    if not folder.job.exists() and (why := await submitter.describe_foreign(job_id)):
        raise UnrecordedJobError(why)
    return folder.job.exists()


async def kill_foreign(home: Home, job_id: str) -> bool:
    """Have the scheduler end a job that `adopt` found without a job directory; return False if it is not tony's.

    Raises:
        SchedulerError: the scheduler cannot be reached.
    """
    owner = registry.find_owner(job_id)
    return owner is not None and await registry.load(owner).create_submitter(home).kill_foreign(job_id)


async def _report_ended(
    folder: JobFolder, record: JobRecord, submitter: Submitter, status: ApplicationStatus
) -> JobReport | None:
    """Fetch what the AM left; without a summary finalize the job here, with the scheduler's explanation."""
    try:
        await submitter.fetch(folder)
    except InfraError:
        if read_summary(folder) is None:
            raise
    ended = read_summary(folder)
    if ended is not None:
        return _keep_summary(folder, ended, status)
    return await _close_without_summary(folder, record, submitter, status)


async def close_without_scheduler(folder: JobFolder, record: JobRecord, reason: str) -> JobReport | None:
    """Record that a job was killed whose cluster is gone, unless its end is known; return the report.

    Returns None while another process is recording the end.

    Raises:
        StorageError: its end cannot be written.
    """
    status = ApplicationStatus(alive=False, result=JobState.KILLED, note=reason)
    return read_summary(folder) or await _close_without_summary(folder, record, None, status)


async def _close_without_summary(
    folder: JobFolder, record: JobRecord, submitter: Submitter | None, status: ApplicationStatus
) -> JobReport | None:
    if status.note and not status.is_unstartable and not folder.am_log.exists():
        folder.am_log.write_text(f"{status.note}\n", encoding="utf-8")
    return await close_lost(folder, record, submitter, status)
