"""Jobs on a cluster that is being stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.jobs.fake_am import JOB, recorded, running, succeeded
from tony.errors import ConnectionFailedError, SchedulerError
from tony.history.job_record import record_of, write_summary
from tony.jobs import actions, cluster_jobs
from tony.jobs.status import job_status, remote_job_sync
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState

OTHER = "kubernetes-20261128-120000-bbbbbb"


@pytest.fixture
def done(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two recorded jobs; the list has what is done to them."""
    monkeypatch.setattr(cluster_jobs, "_FOLLOWER_SECONDS", 0.0)
    found: list[str] = []

    async def kill(_: Home, job: str, *, now: bool) -> None:
        assert now
        found.append(f"kill {job}")

    async def refresh(_: Home, job: str) -> bool:
        found.append(f"fetch {job}")
        return True

    for job in (JOB, OTHER):
        recorded(home, job)
    monkeypatch.setattr(actions, "kill", kill)
    monkeypatch.setattr(remote_job_sync, "refresh", refresh)
    return found


def answer(home: Home, monkeypatch: pytest.MonkeyPatch, find: Callable[[str], JobReport]) -> None:
    """Let status requests be answered by a function of the job's id."""

    async def load_report(_: Home, job: str, timeout: float | None = None) -> JobReport:
        return find(job)

    monkeypatch.setattr(job_status, "load_report", load_report)


def find_running(home: Home, job: str) -> JobReport:
    return running(home.job(job), record_of(home, job))


def find_ended(home: Home, job: str) -> JobReport:
    return succeeded(home.job(job), record_of(home, job))


async def test_those_that_run_are_killed(home: Home, monkeypatch: pytest.MonkeyPatch, done: list[str]) -> None:
    """And waited for until their histories are complete; a single failure to ask does not end that."""
    notes: list[str] = []
    refusals = iter([True])

    def find(job: str) -> JobReport:
        if job == OTHER:
            return find_ended(home, job)
        if not done:
            return find_running(home, job)
        if next(refusals, False):
            raise SchedulerError("the API server is busy")
        return find_ended(home, job)

    answer(home, monkeypatch, find)
    await cluster_jobs.kill_running_jobs(home, [JOB, OTHER], notes.append)
    assert done == [f"fetch {JOB}", f"kill {JOB}", f"fetch {JOB}"]
    assert notes == [f"1 job is still running and will be killed: {JOB}"]


@pytest.mark.parametrize("hangs", [True, False])
async def test_one_whose_am_does_not_answer_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch, done: list[str], hangs: bool
) -> None:
    """It may be alive. If it cannot be killed, the cluster is stopped all the same, and its end recorded."""
    monkeypatch.setattr(cluster_jobs, "_ANSWER_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(cluster_jobs, "_END_TIMEOUT_SECONDS", 0.05)

    async def load_report(*_: object) -> JobReport:
        if hangs:
            await asyncio.Event().wait()
        raise ConnectionFailedError("no answer")

    monkeypatch.setattr(job_status, "load_report", load_report)
    notes: list[str] = []
    await cluster_jobs.kill_running_jobs(home, [JOB], notes.append)
    assert done == [f"fetch {JOB}", f"kill {JOB}"]
    assert len(notes) == 1


async def test_nothing_is_said_if_none_runs(home: Home, monkeypatch: pytest.MonkeyPatch, done: list[str]) -> None:
    """One of an earlier cluster is not known to this one."""

    def find(job: str) -> JobReport:
        if job == OTHER:
            raise SchedulerError("the API server does not know it")
        return find_ended(home, job)

    answer(home, monkeypatch, find)
    await cluster_jobs.kill_running_jobs(home, [JOB, OTHER], pytest.fail)
    assert done == []


async def test_an_end_that_is_known_is_kept(home: Home) -> None:
    ended, _ = recorded(home), recorded(home, OTHER)
    write_summary(ended[0], succeeded(*ended))
    await cluster_jobs.close_jobs(home, [JOB, OTHER], "its cluster was stopped")
    states = [(await job_status.load_report(home, job)).state for job in (JOB, OTHER)]
    assert states == [JobState.SUCCEEDED, JobState.KILLED]
