"""Ending a job on somebody's word."""

from __future__ import annotations

import asyncio
import contextlib

from tony import clock
from tony.errors import ConnectionFailed, InfraError
from tony.history.job_record import pending_report, record_of
from tony.history.kill_request import KillRequest, save_kill_request
from tony.jobs import aborted_submissions, facts
from tony.jobs.am_client import PATIENCE, tell_kill, whereabouts
from tony.jobs.whoami import user_name
from tony.linux.threads import to_thread
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder

_LOOK_AGAIN = 0.05
#: Seconds in which one of this machine should answer, before what is asked of it is kept; and in which one should come
#: to obey, before we end what is left without it.
_GAP, _COMING = 0.5, 5.0
#: Likewise of one elsewhere, whose scheduler has to be asked first.
_GAP_ELSEWHERE = 1.5


async def kill(home: Home, job_id: str, *, now: bool = False) -> JobReport:
    """Asks the application master to end the job; returns once that is on its way.

    A job that has ended already is left as it is. If no application master answers, it is kept for the next one; and if
    none comes, what runs is ended without it, from here or by the scheduler.

    Args:
        now: without the grace that programs have to save something.

    Returns:
        The job as it stood just before.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailed: the application master lives and cannot be reached.
    """
    give_up = clock.monotonic() + PATIENCE
    folder = home.job(job_id)
    submitter = facts.submitter_of(home, record_of(home, job_id))
    here = submitter.capabilities.same_host
    kept: float | None = None
    broken = False
    while True:
        began = clock.monotonic()
        try:
            report = await facts.load_report(home, job_id, _GAP if here else _GAP_ELSEWHERE)
            if report.state.ended:
                folder.kill_request.unlink(missing_ok=True)
                return report
            if not folder.am.exists() and await _ended_by_scheduler(home, job_id):
                return report
            if kept is None or not here:  # one of this machine that answers finds what is kept
                await tell_kill(folder, user_name(), now)
            return report
        except ConnectionFailed as error:
            # It may be coming up, or just have ended, or end at this very moment: then the next look at the job tells.
            hangs = not error.gone and (broken or clock.monotonic() - began > facts.PROMPT)
            if (hangs or clock.monotonic() > give_up) and await _ended_by_scheduler(home, job_id):
                return pending_report(folder, record_of(home, job_id))
            lives = submitter.am_alive(folder) if here else not aborted_submissions.is_under_way(home, job_id)
            if kept is None and lives and (error.gone or (here and hangs)):
                save_kill_request(folder, KillRequest(actor=user_name(), now=now))
                with contextlib.suppress(InfraError):  # then it counts as long as we are here
                    await submitter.keep(folder)
                kept = clock.monotonic()
            if hangs:
                raise _with_advice(error, folder) from error
            if error.gone and kept is not None and clock.monotonic() - kept > _COMING:
                if here or not await _ended_by_scheduler(home, job_id):
                    return await _end_from_here(home, job_id)
                return pending_report(folder, record_of(home, job_id))
            broken = broken or not error.gone
            if clock.monotonic() > give_up:
                raise
        await asyncio.sleep(_LOOK_AGAIN)


async def _end_from_here(home: Home, job_id: str) -> JobReport:
    """Ends what runs of a job of this machine of which no application master can be found, alive as it may seem."""
    from tony.jobs.dead_am_report import as_logged  # late: it loads the whole machine

    folder, record = home.job(job_id), record_of(home, job_id)
    report = await to_thread(as_logged, folder, record)
    await facts.submitter_of(home, record).withdraw(folder, f"killed by {user_name()}")
    return report


async def _ended_by_scheduler(home: Home, job_id: str) -> bool:
    """Has the scheduler end a job whose master, on another machine, has not come up, or does not answer.

    Not while it is being submitted: the scheduler would know of nothing that it could end.
    """
    submitter = facts.submitter_of(home, record_of(home, job_id))
    if submitter.capabilities.same_host or aborted_submissions.is_under_way(home, job_id):
        return False
    await submitter.withdraw(home.job(job_id), f"killed by {user_name()}")
    return True


def _with_advice(error: ConnectionFailed, folder: JobFolder) -> ConnectionFailed:
    there = whereabouts(folder)
    if there is None:
        return error
    after = f"`tony status {folder.job_id}` then ends what it left."
    if there.supervisor is not None:
        after = "the next one obeys. So does this one if it goes on: what you asked for is kept."
    return ConnectionFailed(f"{error}. If it hangs, end it with `kill -9 {there.pid}` on {there.host}; {after}")
