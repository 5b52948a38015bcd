"""The jobs of a small cluster of this machine, when it is stopped or has crashed.

Once it is gone, the scheduler can no longer say how they ended. So they are killed first, and the end of each is
recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tony import clock
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
#: Jobs that are queried at a time, and seconds for the answer of one.
_MAX_REQUESTS = 8
_ANSWER_TIMEOUT_SECONDS = 3.0
#: Seconds for all jobs to end.
_END_TIMEOUT_SECONDS = 15.0
#: Seconds for followers to fetch the rest of the output.
_FOLLOWER_GRACE_SECONDS = 3.0
_END_BACKOFF = Backoff(first=0.1, most=1.0)
_UNKNOWN_END = "its end is not known: its small Kubernetes is no longer there"


@contextlib.contextmanager
def end_jobs(home: Home, kubeconfig: Path, notice: Callable[[str], None], *, is_running: bool) -> Iterator[None]:
    """Kill the jobs that were submitted with a kubeconfig file; once their cluster is stopped, record all their ends.

    The body, which stops the cluster, runs even if jobs could not be killed. Jobs that have not ended by then end with
    it.

    Args:
        is_running: the cluster runs; otherwise only ends are recorded.
    """
    try:
        if is_running:
            asyncio.run(_kill_running_jobs(home, _find_open_jobs(home, kubeconfig), notice))
    except Exception as error:  # a bug or an unreadable folder must not keep the cluster running
        notice(f"not all jobs on the cluster were killed before it is stopped: {error}")
    yield
    try:
        asyncio.run(_record_ends(home, _find_open_jobs(home, kubeconfig), notice))
    except Exception as error:  # an unreadable folder must not keep the cluster's files from being removed
        notice(f"the ends of some jobs on the cluster were not recorded: {error}")


async def _record_ends(home: Home, jobs: Sequence[str], notice: Callable[[str], None]) -> None:
    await asyncio.gather(*(_record_end(home, job, notice) for job in jobs))


async def _record_end(home: Home, job: str, notice: Callable[[str], None]) -> None:
    deadline = clock.monotonic() + _END_TIMEOUT_SECONDS
    reason = "another process is recording it"
    try:
        for pause in _END_BACKOFF:
            if await remote_job_sync.close_without_scheduler(home.job(job), record_of(home, job), _UNKNOWN_END):
                return
            if clock.monotonic() > deadline:
                break
            await asyncio.sleep(pause)
    except Exception as error:  # a bug or a full disk must not keep the ends of other jobs from being recorded
        reason = str(error)
    notice(f"the end of {job} was not recorded: {reason}. The next `tony mini start --kubernetes` tries again")


def _find_open_jobs(home: Home, kubeconfig: Path) -> Sequence[str]:
    jobs = [head.job for head in scan(home).open]
    return [job for job in jobs if load_recorded_values(home.job(job)).get("kubeconfig") == str(kubeconfig)]


async def _kill_running_jobs(home: Home, jobs: Sequence[str], notice: Callable[[str], None]) -> None:
    slots = asyncio.Semaphore(_MAX_REQUESTS)
    answers = await asyncio.gather(*(_may_run(home, job, slots) for job in jobs))
    running = [job for job, runs in zip(jobs, answers, strict=True) if runs]
    if not running:
        return
    verb = "job is" if len(running) == 1 else "jobs are"
    notice(f"{len(running)} {verb} still running and will be killed: {format_first(running, _MAX_SHOWN)}")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_TIMEOUT_SECONDS):
            await asyncio.gather(*(_kill(home, job) for job in running))
            await asyncio.sleep(_FOLLOWER_GRACE_SECONDS)


async def _may_run(home: Home, job: str, slots: asyncio.Semaphore) -> bool:
    try:
        async with slots, asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
            return not (await job_status.load_report(home, job, _ANSWER_TIMEOUT_SECONDS)).state.ended
    except (ConnectionFailedError, TimeoutError):  # its AM may be alive, and does not answer
        return True
    except (TonyError, OSError):
        return False


async def _kill(home: Home, job: str) -> None:
    with contextlib.suppress(TonyError, OSError):
        await remote_job_sync.refresh(home, job)  # the history so far: its AM may hang
    with contextlib.suppress(TonyError, OSError):
        await actions.kill(home, job, now=True)
    for pause in _END_BACKOFF:
        with contextlib.suppress(TonyError, OSError):
            if (await job_status.load_report(home, job)).state.ended and await remote_job_sync.refresh(home, job):
                return
        await asyncio.sleep(pause)
