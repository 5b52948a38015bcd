"""`queue_timeout`: a follower ends a job that has waited too long for its AM."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.jobs.fake_am import JOB, TWO_WORKERS, logged, recorded
from tests.jobs.recording_scheduler import Desk
from tony import clock
from tony.core import events as ev
from tony.errors import SchedulerError
from tony.history.job_record import build_pending_report, read_summary
from tony.jobs.job_follower import iterate_reports
from tony.jobs.status.queue_timeout import QueueLimit
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec, Timeouts
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.schedulers import registry
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import ApplicationStatus, Submitter
from tony.schedulers.local.capabilities import CAPABILITIES

LIMITED = replace(TWO_WORKERS, timeouts=Timeouts(queue=10.0))


class Queue(Desk):
    """A scheduler elsewhere with a full queue.

    Attributes:
        withdrawn: why the job was ended; away: how often it will not answer that; begun: events that the job's master
            has written when its end comes.
    """

    capabilities: Capabilities = replace(CAPABILITIES, same_host=False)

    def __init__(self) -> None:
        super().__init__()
        self.withdrawn: list[str] = []
        self.away = 0
        self.begun: Sequence[ev.Event] = ()

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        if self.withdrawn:
            return ApplicationStatus(alive=False, note=self.withdrawn[0], result=JobState.KILLED)
        return ApplicationStatus(alive=True, note="Queue's AM resource limit exceeded.")

    async def queue_position(self, job_id: str) -> str:
        return "position 3 of 5 pending applications in queue default"

    async def withdraw(self, folder: JobFolder, reason: str) -> None:
        if self.away:
            self.away -= 1
            raise SchedulerError("no daemon answers")
        self.withdrawn.append(reason)
        if self.begun:
            logged(folder, self.begun)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    monkeypatch.setattr(registry, "load_submitter", lambda *_: queue)
    return queue


async def followed(home: Home) -> list[JobReport]:
    async with aclosing(iterate_reports(home, JOB, lambda text: None)) as stream:
        return [report async for report in stream]


REASON = (
    "no application master was started within 10 s (queue_timeout) of submission: position 3 of 5 pending applications "
    "in queue default; Queue's AM resource limit exceeded"
)


async def test_a_job_that_waits_too_long_is_ended(home: Home, queue: Queue) -> None:
    """It failed, as with any other limit on what a cluster takes its time for; its end says where it stood."""
    folder, _ = recorded(home, spec=LIMITED)
    *_, last = await followed(home)
    assert last.failure
    assert (last.state, last.exit_code, last.failure.cause) == (JobState.FAILED, 3, "queue-timeout")
    assert last.failure.reason == REASON
    assert queue.withdrawn == [REASON]
    assert {(task.state, task.note) for task in last.tasks} == {(TaskState.STOPPED, "never started")}
    assert read_summary(folder) == last
    assert not folder.secret.exists()


async def test_queue_timeout_applies_when_the_scheduler_is_back(home: Home, queue: Queue) -> None:
    """The limit is not forgotten."""
    recorded(home, spec=LIMITED, submitted=clock.wall() - 20.0)
    queue.away = 2
    *_, last = await followed(home)
    assert last.failure
    assert (last.failure.cause, len(queue.withdrawn)) == ("queue-timeout", 1)


async def test_an_am_that_started_just_then_decides_the_outcome(home: Home, queue: Queue) -> None:
    """Its summary counts."""
    recorded(home, spec=LIMITED)
    queue.begun = [ev.AttemptStarted(attempt=1, wall=1.0, settings="x", pid=4711, host="far")]
    *_, last = await followed(home)
    assert last.failure
    assert (last.state, last.failure.cause) == (JobState.KILLED, "killed")


def test_the_limit_is_for_the_time_before_the_master(home: Home) -> None:
    """Not for a job that has none, not before it has passed, not after a master ran, not where masters run at once."""
    folder, record = recorded(home, spec=LIMITED, submitted=clock.wall() - 100.0)
    waiting = build_pending_report(folder, record)

    def is_exceeded(spec: JobSpec = LIMITED, submitter: Submitter | None = None, age: float = 100.0) -> bool:
        told = replace(record, spec=spec, submitted=clock.wall() - age)
        return QueueLimit(folder, told, submitter or Queue()).is_exceeded(waiting)

    assert is_exceeded()
    assert not is_exceeded(TWO_WORKERS)
    assert not is_exceeded(submitter=Desk())
    assert not is_exceeded(age=1.0)
    limit = QueueLimit(folder, record, Queue())
    assert not limit.is_exceeded(replace(waiting, state=JobState.QUEUED))
    assert not limit.is_exceeded(replace(waiting, attempt=1))
    logged(folder, [ev.AttemptStarted(attempt=1, wall=1.0, settings="x", pid=4711, host="far")])
    assert not is_exceeded()
