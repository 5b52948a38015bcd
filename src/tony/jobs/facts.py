"""How a job stands, from whoever knows: its living application master, its summary, or its record.

*Missing is not finished.* A job without a summary has not ended: its application master is asked. If that one is dead,
the record is closed with a verdict that says so; if nothing can be known, that is an error, never an answer.
"""

from __future__ import annotations

import asyncio

from tony import clock
from tony.errors import ConnectionFailed, InfraError
from tony.history import event_log
from tony.history.job_record import pending_report, read_summary, record_of
from tony.jobs import remote_jobs
from tony.jobs.am_client import PATIENCE, ask_report, describe_delay
from tony.jobs.finalize_lost import close_lost
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder
from tony.schedulers import registry
from tony.schedulers.interface import Submitter

#: Seconds that lie at most between a job's record and its application master's first sign of life.
_SUBMITTING = 30.0
#: Seconds between the making of its lock file and its first event, at most.
_LOCKING = 2.0
#: A connection that breaks within so many seconds may be one to a master that just ends: it is worth another look.
PROMPT = 1.0
#: Seconds between two looks at a job that is just coming up, ending, or being closed by somebody else.
_LOOK_AGAIN = 0.02
#: Elsewhere a look costs more, and every next pause is longer, up to so many seconds.
_SLOWER, _SELDOM = 1.3, 0.3


def submitter_of(home: Home, record: JobRecord) -> Submitter:
    """The client's half of the scheduler that a job went to.

    Raises:
        InfraError: this installation does not know that scheduler.
    """
    try:
        return registry.load(record.spec.scheduler).submitter(home)
    except LookupError:
        raise InfraError(
            f"job {record.job_id} went to scheduler {record.spec.scheduler!r}, which this tony does not know"
        ) from None


async def load_report(home: Home, job_id: str, patience: float | None = None) -> JobReport:
    """The job as it stands.

    A job whose application master died is closed first; the answer then is its verdict. If another one goes on, that
    one is waited for.

    Args:
        patience: seconds to wait for one that can be asked; `PATIENCE` if nothing is said.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailed: its application master lives, but cannot be reached or does not answer.
    """
    folder = home.job(job_id)
    record: JobRecord | None = None
    submitter: Submitter | None = None
    broken = False
    pause = _LOOK_AGAIN
    give_up = clock.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        ended = read_summary(folder)
        if ended is not None:
            return ended
        record = record or record_of(home, job_id)
        submitter = submitter or submitter_of(home, record)
        began = clock.monotonic()
        try:
            found = await _look(folder, record, submitter)
        except ConnectionFailed:
            if broken or clock.monotonic() - began > PROMPT:
                raise
            broken, found = True, None
        if found is not None:
            return found
        if clock.monotonic() > give_up:
            if not submitter.capabilities.same_host:
                return await remote_jobs.unanswered(folder, record, submitter)
            raise ConnectionFailed(
                f"the application master of {job_id} lives, but nobody answers for it; see {folder.am_log}", gone=True
            )
        await asyncio.sleep(pause)
        pause = pause if submitter.capabilities.same_host else min(_SLOWER * pause, _SELDOM)


async def _look(folder: JobFolder, record: JobRecord, submitter: Submitter) -> JobReport | None:
    """One look; None if things are changing right now and the next look will tell."""
    if not submitter.capabilities.same_host:
        return await remote_jobs.poll_job(folder, record, submitter)
    if _is_being_submitted(folder, record):
        return pending_report(folder, record)
    if submitter.am_alive(folder) is False:
        return await close_lost(folder, record, submitter)
    try:
        return await ask_report(folder)
    except ConnectionFailed as error:
        if not error.gone:
            raise
    stopped = describe_delay(folder)
    if stopped is not None:
        raise stopped
    return None if event_log.segments(folder.path) else pending_report(folder, record)


def _is_being_submitted(folder: JobFolder, record: JobRecord) -> bool:
    """Whether an application master may be about to come up: the record is new, and there is no trace of its life."""
    try:
        since, patience = folder.am_lock.stat().st_mtime, _LOCKING
    except FileNotFoundError:
        since, patience = record.submitted, _SUBMITTING
    # A clock that was set back meanwhile must not have us believe this for as long as it was set back.
    return abs(clock.wall() - since) < patience and not event_log.segments(folder.path)
