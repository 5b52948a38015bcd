"""Killing a job."""

from __future__ import annotations

import asyncio
import contextlib

from tony import clock
from tony.errors import ConnectionFailed, InfraError
from tony.history.job_record import pending_report, record_of
from tony.history.kill_request import KillRequest, save_kill_request
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS, locate_am, tell_kill
from tony.jobs.status import aborted_submissions, job_status
from tony.jobs.whoami import get_user_name
from tony.linux.thread_pools import to_thread
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder

_POLL_SECONDS = 0.05
#: Seconds in which a new AM should start and obey a saved request, before the tasks are ended without it.
_START_SECONDS = 5.0
#: Seconds in which an AM should answer before the request is saved: on this machine, and on another one, where the
#: scheduler is queried first.
_ANSWER_SECONDS = 0.5
_REMOTE_ANSWER_SECONDS = 1.5


async def kill(home: Home, job_id: str, *, now: bool = False, actor: str = "") -> JobReport:
    """Request that the AM end the job; return once it has accepted.

    A job that has already ended is left unchanged. If no AM answers, the request is saved for the next AM attempt; if
    none starts, the tasks are ended without it, by this process or by the scheduler.

    Args:
        now: skip the grace period in which programs may save their work.
        actor: who kills it; default: the user of this process.

    Returns:
        The job's status just before.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailed: the AM is alive and cannot be reached.
    """
    actor = actor or get_user_name()
    give_up = clock.monotonic() + ANSWER_TIMEOUT_SECONDS
    folder = home.job(job_id)
    submitter = job_status.load_submitter(home, record_of(home, job_id))
    here = submitter.capabilities.same_host
    kept: float | None = None
    broken = False
    while True:
        began = clock.monotonic()
        try:
            report = await job_status.load_report(home, job_id, _ANSWER_SECONDS if here else _REMOTE_ANSWER_SECONDS)
            if report.state.ended:
                folder.kill_request.unlink(missing_ok=True)
                return report
            if not folder.am.exists() and await _end_by_scheduler(home, job_id, actor):
                return report
            if kept is None or not here:  # an AM on this machine that answers has found the saved request
                await tell_kill(folder, actor, now)
            return report
        except ConnectionFailed as error:
            # It may be starting, or have just ended, or be ending: then the next poll tells.
            hangs = not error.gone and (broken or clock.monotonic() - began > job_status.PROMPT)
            if (hangs or clock.monotonic() > give_up) and await _end_by_scheduler(home, job_id, actor):
                return pending_report(folder, record_of(home, job_id))
            lives = submitter.am_alive(folder) if here else not aborted_submissions.is_under_way(home, job_id)
            if kept is None and lives and (error.gone or (here and hangs)):
                save_kill_request(folder, KillRequest(actor=actor, now=now))
                with contextlib.suppress(InfraError):  # then the request is valid only while this process runs
                    await submitter.store_kill_request(folder)
                kept = clock.monotonic()
            if hangs:
                raise _add_kill_hint(error, folder) from error
            if error.gone and kept is not None and clock.monotonic() - kept > _START_SECONDS:
                if here or not await _end_by_scheduler(home, job_id, actor):
                    return await _end_from_here(home, job_id, actor)
                return pending_report(folder, record_of(home, job_id))
            broken = broken or not error.gone
            if clock.monotonic() > give_up:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def _end_from_here(home: Home, job_id: str, actor: str) -> JobReport:
    """End the tasks of a job on this machine whose AM cannot be found, even if it seems to be alive."""
    from tony.jobs.status.status_from_log import report_as_logged  # late: it loads the state machine

    folder, record = home.job(job_id), record_of(home, job_id)
    report = await to_thread(report_as_logged, folder, record)
    await job_status.load_submitter(home, record).withdraw(folder, f"killed by {actor}")
    return report


async def _end_by_scheduler(home: Home, job_id: str, actor: str) -> bool:
    """Have the scheduler end a job on another machine whose AM has not started or does not answer.

    Not while it is being submitted: the scheduler would not know the job yet.
    """
    submitter = job_status.load_submitter(home, record_of(home, job_id))
    if submitter.capabilities.same_host or aborted_submissions.is_under_way(home, job_id):
        return False
    await submitter.withdraw(home.job(job_id), f"killed by {actor}")
    return True


def _add_kill_hint(error: ConnectionFailed, folder: JobFolder) -> ConnectionFailed:
    there = locate_am(folder)
    if there is None:
        return error
    after = f"`tony status {folder.job_id}` then stops the tasks it left."
    if there.supervisor is not None:
        after = "the AM that replaces it ends the job. The request is saved, in case this AM continues."
    return ConnectionFailed(f"{error}. If it hangs, kill it with `kill -9 {there.pid}` on {there.host}; {after}")
