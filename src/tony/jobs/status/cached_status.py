"""The last known status of a job whose AM does not answer.

It is replayed from the local event log. For a job on another machine that log may be out of reach together with its
file system, so the last report received here is cached in the job directory as well.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from tony.errors import ConnectionFailedError, InfraError, StorageError
from tony.history.job_record import record_of
from tony.history.json_files import read_if_valid, write_json
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.schedulers import registry

_AM_UNREACHABLE = "its application master does not answer; showing the last known status"


async def load_last_known_report(home: Home, job_id: str) -> JobReport:
    """Return the last known status of a job whose AM does not answer.

    Raises:
        UnknownJobError: there is no such job.
    """
    folder, record = home.job(job_id), record_of(home, job_id)
    fresh = True
    try:
        await registry.load_submitter(home, record).fetch(folder)
    except InfraError:
        fresh = False
    return replace(await to_thread(load_cached_report, folder, record, fresh=fresh), waiting=_AM_UNREACHABLE)


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
