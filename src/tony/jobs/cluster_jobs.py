"""The jobs that run on a small cluster of this machine, when it is stopped.

Once it is gone, the scheduler can no longer say how they ended. So they are killed first, and the end of each is
recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tony.errors import ConnectionFailedError, TonyError
from tony.history.directory_scan import scan
from tony.history.job_record import record_of
from tony.jobs import actions
from tony.jobs.status import job_status, remote_job_sync
from tony.model.state_directory import Home
from tony.retry import Backoff
from tony.schedulers.settings_schema import load_recorded_values
from tony.units import format_first

#: Jobs that are listed in one sentence.
_MAX_SHOWN = 3
#: Seconds for a job to say whether it runs.
_ANSWER_TIMEOUT_SECONDS = 3.0
#: Seconds for all jobs to end.
_END_TIMEOUT_SECONDS = 15.0
#: Seconds for followers to fetch the rest of the output.
_FOLLOWER_SECONDS = 3.0
_END_BACKOFF = Backoff(first=0.1, most=1.0)


def find_open_jobs(home: Home, kubeconfig: Path) -> Sequence[str]:
    """Return the jobs whose end is not recorded, of those submitted with a kubeconfig file."""
    jobs = [head.job for head in scan(home).open]
    return [job for job in jobs if load_recorded_values(home.job(job)).get("kubeconfig") == str(kubeconfig)]


async def kill_running_jobs(home: Home, jobs: Sequence[str], notice: Callable[[str], None]) -> None:
    """Kill those of the jobs that run, and wait until their histories are complete; not for long."""
    answers = await asyncio.gather(*(_may_run(home, job) for job in jobs))
    running = [job for job, runs in zip(jobs, answers, strict=True) if runs]
    if not running:
        return
    verb = "job is" if len(running) == 1 else "jobs are"
    notice(f"{len(running)} {verb} still running and will be killed: {format_first(running, _MAX_SHOWN)}")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_TIMEOUT_SECONDS):
            await asyncio.gather(*(_kill(home, job) for job in running))
            await asyncio.sleep(_FOLLOWER_SECONDS)


async def _may_run(home: Home, job: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
            return not (await job_status.load_report(home, job, _ANSWER_TIMEOUT_SECONDS)).state.ended
    except (ConnectionFailedError, TimeoutError):  # its AM may be alive, and does not answer
        return True
    except TonyError:
        return False


async def _kill(home: Home, job: str) -> None:
    with contextlib.suppress(TonyError):
        await remote_job_sync.refresh(home, job)  # the history so far: its AM may hang
    with contextlib.suppress(TonyError):
        await actions.kill(home, job, now=True)
    for pause in _END_BACKOFF:
        with contextlib.suppress(TonyError):
            if (await job_status.load_report(home, job)).state.ended and await remote_job_sync.refresh(home, job):
                return
        await asyncio.sleep(pause)


async def close_jobs(home: Home, jobs: Sequence[str], reason: str) -> None:
    """Record that the jobs were killed, unless their ends are known: their cluster is gone."""
    for job in jobs:
        with contextlib.suppress(TonyError):
            await remote_job_sync.close_without_scheduler(home.job(job), record_of(home, job), reason)
