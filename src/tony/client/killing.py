"""Ending a job on somebody's word."""

from __future__ import annotations

import asyncio

from tony import clock
from tony.client import facts
from tony.client.master import PATIENCE, tell_kill
from tony.client.user import user_name
from tony.errors import ConnectionFailed
from tony.model.layout import Home
from tony.model.report import JobReport

_LOOK_AGAIN = 0.05


async def kill(home: Home, job_id: str, *, now: bool = False) -> JobReport:
    """Asks the application master to end the job; returns once that is on its way.

    A job that has ended already is left as it is.

    Args:
        now: without the grace that programs have to save something.

    Returns:
        The job as it stood just before.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailed: the application master lives and cannot be reached.
    """
    give_up = clock.monotonic() + PATIENCE
    while True:
        report = await facts.report(home, job_id)
        if report.state.ended:
            return report
        try:
            await tell_kill(home.job(job_id), user_name(), now)
            return report
        except ConnectionFailed as error:
            # It may be coming up, or just have ended: then the next look at the job tells.
            if not error.gone:
                raise _with_advice(error, report) from error
            if clock.monotonic() > give_up:
                raise
        await asyncio.sleep(_LOOK_AGAIN)


def _with_advice(error: ConnectionFailed, report: JobReport) -> ConnectionFailed:
    if report.am is None:
        return error
    return ConnectionFailed(
        f"{error}. If it hangs, end it with `kill -9 {report.am.pid}` on {report.am.host}; "
        f"`tony status {report.job}` then ends what it left."
    )
