"""A list shows living jobs as they stand, the wanted ones only; a scheduler's own list is requested by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.jobs.fake_am import LONG_AGO, FakeAm, failed, job_of, recorded, standing, succeeded
from tests.jobs.recording_scheduler import Desk, Office
from tony.errors import SchedulerError
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.jobs.job_list import Filter, list_ended_jobs, list_jobs
from tony.jobs.status import job_status
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.schedulers import registry
from tony.schedulers.client_interface import ListEntry

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


HERE, THERE = "application_1795000000000_0001", "application_1795000000000_0002"


class Cluster(Desk):
    """Knows two jobs.

    Attributes:
        asked: how often it was asked for its list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def list_jobs(self) -> Sequence[ListEntry]:
        self.asked += 1
        if self.error:
            raise self.error
        return [
            ListEntry(job=HERE, name="cut", state=JobState.RUNNING, user="ann", submitted=LONG_AGO),
            ListEntry(
                job=THERE,
                name="theirs",
                state=JobState.FAILED,
                user="bob",
                submitted=LONG_AGO + 60,
                ended=LONG_AGO + 70,
                exit_code=1,
                reason="boom",
            ),
        ]


@pytest.fixture
def cluster(home: Home, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One of its two jobs is recorded here, and one of another scheduler's."""
    cluster = Cluster()
    monkeypatch.setattr(registry, "load", lambda name: Office(cluster))
    for job, scheduler in ((HERE, "yarn"), ("local-20260101-000000-aaaaaa", "local")):
        folder, record = recorded(home, job, JobSpec(name="digits", command="x", scheduler=scheduler))
        write_summary(folder, succeeded(folder, record))
    return cluster


async def test_merged(home: Home, cluster: Cluster) -> None:
    """Newest first; of what is recorded here the record is told."""
    wanted = Filter(scheduler="yarn")
    assert list_ended_jobs(home, wanted) is None
    theirs, ours = (await list_jobs(home, wanted)).heads
    assert (ours.job, ours.name, ours.state, ours.exit_code) == (HERE, "digits", JobState.SUCCEEDED, 0)
    assert (theirs.job, theirs.name, theirs.state, theirs.exit_code) == (THERE, "theirs", JobState.FAILED, 1)
    assert (theirs.scheduler, theirs.tasks, theirs.reason) == ("yarn", None, "boom")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(scheduler="yarn", user="bob"), [THERE]),
        (Filter(scheduler="yarn", name="th*"), [THERE]),
        (Filter(scheduler="yarn", name="cut"), []),
        (Filter(scheduler="yarn", since=LONG_AGO + 30), [THERE]),
        (Filter(scheduler="yarn", states={JobState.SUCCEEDED}), [HERE]),
        (Filter(scheduler="yarn", states={JobState.RUNNING}), []),
    ],
)
async def test_filters(home: Home, cluster: Cluster, wanted: Filter, expected: list[str]) -> None:
    assert [head.job for head in (await list_jobs(home, wanted)).heads] == expected


async def test_without_the_option_the_scheduler_is_not_asked(home: Home, cluster: Cluster) -> None:
    """Listing local job directories needs no cluster."""
    assert len((await list_jobs(home, Filter())).heads) == 2
    assert cluster.asked == 0


async def test_an_unavailable_scheduler_is_an_error(home: Home, cluster: Cluster) -> None:
    """There is no list, and the reason is reported."""
    cluster.error = SchedulerError("there is no cluster")
    with pytest.raises(SchedulerError, match="there is no cluster"):
        await list_jobs(home, Filter(scheduler="yarn"))


async def test_unknown_states_of_several_jobs_are_one_problem(
    home: Home, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the newest of them, on one line."""

    async def fail_to_load(home: Home, job_id: str) -> JobReport:
        raise SchedulerError("no ResourceManager answers:\n  no listener there")

    monkeypatch.setattr(job_status, "load_report", fail_to_load)
    for number in (7, 8, 9):
        recorded(home, f"application_1795000000000_000{number}", JobSpec(command="x", scheduler="yarn"))
    answer = await list_jobs(home, Filter())
    said = "application_1795000000000_0009 and 2 more: no ResourceManager answers: no listener there"
    assert ((said,), 5) == (answer.problems, len(answer.heads))
