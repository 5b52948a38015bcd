"""Jobs on a cluster that is being stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.fake_am import recorded, running, succeeded
from tony.errors import ConnectionFailedError, SchedulerError, StorageError
from tony.history.job_record import read_summary, record_of, write_summary
from tony.jobs import actions, cluster_jobs
from tony.jobs.status import job_status, remote_job_sync
from tony.linux.liveness_lock import try_lock
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.testing.sample_jobs import build_two_roles

JOB, OTHER = "kubernetes-20261128-120000-aaaaaa", "kubernetes-20261128-120000-bbbbbb"
KUBECONFIG = Path("/small/kubeconfig")
UNKNOWN = (JobState.KILLED, "its end is not known: its small Kubernetes is no longer there")


def submit(home: Home, job: str, kubeconfig: Path = KUBECONFIG) -> None:
    """Record a job as submitted."""
    settings = {"kubeconfig": str(kubeconfig)}
    recorded(home, job, replace(build_two_roles(scheduler="kubernetes"), scheduler_settings=settings))


@pytest.fixture
def calls(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two submitted jobs; the list has what is done to them."""
    monkeypatch.setattr(cluster_jobs, "_FOLLOWER_GRACE_SECONDS", 0.0)
    found: list[str] = []

    async def kill(_: Home, job: str, *, now: bool) -> None:
        assert now
        found.append(f"kill {job}")

    async def refresh(_: Home, job: str) -> bool:
        found.append(f"fetch {job}")
        return True

    submit(home, JOB)
    submit(home, OTHER)
    monkeypatch.setattr(actions, "kill", kill)
    monkeypatch.setattr(remote_job_sync, "refresh", refresh)
    return found


def stop(home: Home, notice: Callable[[str], None], *, is_running: bool = True) -> None:
    """End the jobs around the stop of their cluster."""
    with cluster_jobs.end_jobs(home, KUBECONFIG, notice, is_running=is_running):
        assert all(read_end(home, job) != UNKNOWN for job in (JOB, OTHER))


def answer(monkeypatch: pytest.MonkeyPatch, find: Callable[[str], JobReport]) -> None:
    """Let status requests be answered by a function of the job's id."""

    async def load_report(_: Home, job: str, timeout: float | None = None) -> JobReport:
        return find(job)

    monkeypatch.setattr(job_status, "load_report", load_report)


def find_running(home: Home, job: str) -> JobReport:
    return running(home.job(job), record_of(home, job))


def close_succeeded(home: Home, job: str) -> JobReport:
    """What a client does that finds a job ended."""
    report = succeeded(home.job(job), record_of(home, job))
    write_summary(home.job(job), report)
    return report


def read_end(home: Home, job: str) -> tuple[JobState, str] | None:
    """Return the recorded state and reason of a job; None if its end is not recorded."""
    report = read_summary(home.job(job))
    return (report.state, report.failure.reason if report.failure else "") if report else None


def test_those_that_run_are_killed(home: Home, monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    """And waited for until their histories are complete; a single failure to ask does not end that."""
    notes: list[str] = []
    refusals = iter([True])

    def find(job: str) -> JobReport:
        if job == OTHER:
            return close_succeeded(home, job)
        if not calls:
            return find_running(home, job)
        if next(refusals, False):
            raise SchedulerError("the API server is busy")
        return close_succeeded(home, job)

    answer(monkeypatch, find)
    stop(home, notes.append)
    assert calls == [f"fetch {JOB}", f"kill {JOB}", f"fetch {JOB}"]
    assert notes == [f"1 job is still running and will be killed: {JOB}"]


@pytest.mark.parametrize("hangs", [True, False])
def test_one_whose_am_does_not_answer_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch, calls: list[str], hangs: bool
) -> None:
    """It may be alive. If it does not end, that its end is not known is recorded."""
    monkeypatch.setattr(cluster_jobs, "_ANSWER_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(cluster_jobs, "_END_TIMEOUT_SECONDS", 0.05)
    close_succeeded(home, OTHER)

    async def load_report(*_: object) -> JobReport:
        if hangs:
            await asyncio.Event().wait()
        raise ConnectionFailedError("no answer")

    monkeypatch.setattr(job_status, "load_report", load_report)
    notes: list[str] = []
    stop(home, notes.append)
    assert calls == [f"fetch {JOB}", f"kill {JOB}"]
    assert len(notes) == 1
    assert read_end(home, JOB) == UNKNOWN
    assert read_end(home, OTHER) == (JobState.SUCCEEDED, "")


@pytest.mark.parametrize("error", [SchedulerError("the API server is away"), OSError("the disk is full")])
def test_nothing_is_killed_that_cannot_be_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch, calls: list[str], error: Exception
) -> None:
    def fail(_: str) -> JobReport:
        raise error

    answer(monkeypatch, fail)
    stop(home, pytest.fail)
    assert calls == []
    assert read_end(home, JOB) == UNKNOWN


def test_a_bug_does_not_keep_the_cluster_running(home: Home, monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    def fail(_: str) -> JobReport:
        raise KeyError("phase")

    answer(monkeypatch, fail)
    notes: list[str] = []
    stop(home, notes.append)
    assert notes == ["not all jobs on the cluster were killed before it is stopped: 'phase'"]
    assert read_end(home, JOB) == UNKNOWN


@pytest.mark.parametrize("error", [None, KeyError("phase"), StorageError("the disk is full")])
def test_ends_that_cannot_be_recorded(
    home: Home, monkeypatch: pytest.MonkeyPatch, calls: list[str], error: Exception | None
) -> None:
    """Because another process is doing that, or for lack of room: the user is told, and the files can be removed."""
    monkeypatch.setattr(cluster_jobs, "_END_TIMEOUT_SECONDS", 0.05)

    async def close(*_: object) -> None:
        if error:
            raise error

    monkeypatch.setattr(remote_job_sync, "close_without_scheduler", close)
    notes: list[str] = []
    stop(home, notes.append, is_running=False)
    assert calls == []
    assert [job in note for job, note in zip([JOB, OTHER], sorted(notes), strict=True)] == [True, True]
    assert all(str(error or "another process") in note for note in notes)


async def test_an_end_that_another_process_records(home: Home, calls: list[str]) -> None:
    folder, record = home.job(JOB), record_of(home, JOB)
    with try_lock(folder.am_lock) as is_locked:
        assert is_locked
        assert await remote_job_sync.close_without_scheduler(folder, record, "lost") is None
    report = await remote_job_sync.close_without_scheduler(folder, record, "lost")
    assert report == read_summary(folder)
    assert report is not None


def test_a_cluster_that_does_not_run(home: Home, calls: list[str]) -> None:
    """It has crashed. Only its own jobs are ended."""
    elsewhere = "kubernetes-20261128-120000-cccccc"
    submit(home, elsewhere, Path("/other/kubeconfig"))
    stop(home, pytest.fail, is_running=False)
    assert calls == []
    assert [home.job(job).summary.exists() for job in (JOB, OTHER, elsewhere)] == [True, True, False]
