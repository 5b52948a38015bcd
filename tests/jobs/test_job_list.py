"""A list shows living jobs as they stand, and the wanted ones only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jobs.fake_am import LONG_AGO, FakeAm, failed, job_of, recorded, standing, succeeded
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.jobs.job_list import Filter, list_ended_jobs, list_jobs
from tony.model.job_spec import JobSpec
from tony.model.layout import Home
from tony.model.states import JobState, TaskState

A, B, C = (f"local-20260101-00000{n}-aaaaaa" for n in range(3))


@pytest.fixture
def jobs(home: Home) -> Home:
    """A: succeeded. B: failed, another name, another user, later. C: no summary yet."""
    folder, record = recorded(home, A)
    write_summary(folder, succeeded(folder, record))
    folder, record = recorded(home, B, JobSpec(name="eval-1", command="true"), submitted=LONG_AGO + 100)
    record = replace(record, user="ann")
    write_json(folder.job, {**job_of(folder), "user": "ann"})
    two = recorded(home, C, submitted=LONG_AGO + 50)
    write_summary(folder, replace(failed(*two), job=B, name="eval-1", user="ann", submitted=LONG_AGO + 100))
    return home


async def ids(home: Home, **wanted: object) -> list[str]:
    """The ids of the jobs that are listed."""
    return [head.job for head in (await list_jobs(home, Filter(**wanted))).heads]  # type: ignore[arg-type]


async def test_a_running_jobs_state_comes_from_its_am(jobs: Home) -> None:
    """The list can be filtered by it."""
    folder, record = recorded(jobs, C, submitted=LONG_AGO + 50)
    async with FakeAm(folder, standing(folder, record, JobState.QUEUED, TaskState.REQUESTED)):
        assert await ids(jobs, states={JobState.QUEUED}) == [C]
        assert await ids(jobs, states={JobState.SUBMITTED}) == []


async def test_a_lost_job_is_closed(jobs: Home) -> None:
    assert await ids(jobs, states={JobState.FAILED}) == [B, C]
    assert jobs.job(C).summary.exists()


async def test_ended_jobs_are_listed_without_asking(jobs: Home) -> None:
    """As long as no wanted job is open."""
    assert list_ended_jobs(jobs, Filter()) is None
    quick = list_ended_jobs(jobs, Filter(name="eval-*"))
    assert quick is not None
    assert [head.job for head in quick.heads] == [B]
    assert await ids(jobs) == [B, C, A]
    assert list_ended_jobs(jobs, Filter()) == await list_jobs(jobs, Filter())


async def test_unreadable_jobs_are_reported(jobs: Home) -> None:
    jobs.index.unlink()
    jobs.job(A).job.write_text("{")
    folder, _ = recorded(jobs, C)
    write_json(folder.job, {**job_of(folder), "spec": {**job_of(folder)["spec"], "scheduler": "abacus"}})
    answer = await list_jobs(jobs, Filter())
    assert [head.job for head in answer.heads] == [B, C]
    assert [problem.partition(":")[0] for problem in answer.problems] == [A, C]
