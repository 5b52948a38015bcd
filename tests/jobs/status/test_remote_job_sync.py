"""Where a record breaks off, the scheduler's word counts; where the scheduler is away, the record and the AM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.facts import mentions
from tests.jobs.fake_am import JOB, LONG_AGO, FakeAm, logged, recorded, standing
from tests.jobs.recording_scheduler import Desk
from tests.jobs.status.test_job_end import exited, started
from tony.core.events import Event, KillRequested
from tony.errors import ConnectionFailedError, SchedulerError
from tony.history.job_record import read_summary
from tony.history.json_files import write_json
from tony.jobs import actions
from tony.jobs.actions import kill
from tony.jobs.am_client import locate_am
from tony.jobs.status import aborted_submissions, job_status, remote_job_sync
from tony.jobs.status.report_from_log import build_last_report
from tony.model.actor import Actor, ActorKind
from tony.model.codec import to_plain
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.ids import TaskId
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers import registry
from tony.schedulers.client_interface import ApplicationStatus
from tony.schedulers.yarn.capabilities import CAPABILITIES

SIGTERM = Actor("SIGTERM", ActorKind.SIGNAL)


@pytest.mark.parametrize(
    ("status", "state", "exit_code", "reason"),
    [
        (None, JobState.FAILED, 3, "died, and the job with it"),
        (ApplicationStatus(alive=False, note="out of memory"), JobState.FAILED, 3, "died, and the job with it"),
        (ApplicationStatus(alive=False, result=JobState.SUCCEEDED), JobState.SUCCEEDED, 0, None),
        (
            ApplicationStatus(alive=False, result=JobState.FAILED, note="worker:1 exited with 7"),
            JobState.FAILED,
            3,
            "worker:1 exited with 7 (the end of the event log is missing)",
        ),
        (
            ApplicationStatus(alive=False, result=JobState.KILLED, note="killed by user bob"),
            JobState.KILLED,
            4,
            "by user bob",
        ),
        (
            ApplicationStatus(alive=False, result=JobState.KILLED),
            JobState.KILLED,
            4,
            "the scheduler reports that it was killed",
        ),
        (
            ApplicationStatus(alive=False, result=JobState.KILLED, overdue="longer than 3s"),
            JobState.FAILED,
            1,
            "longer than 3s",
        ),
    ],
)
def test_the_record_breaks_off(
    home: Home, status: ApplicationStatus | None, state: JobState, exit_code: int, reason: str | None
) -> None:
    """HDFS took no more of it: YARN knows how the job ended all the same."""
    folder, record = recorded(home)
    logged(folder, started())
    report = build_last_report(folder, record, status)
    assert (report.state, report.exit_code) == (state, exit_code)
    assert (report.failure is None) is (reason is None)
    on_purpose = status is not None and (status.result is JobState.KILLED or status.overdue)
    left = {JobState.SUCCEEDED: "the end of its event log is missing"}.get(state, "lost with the application master")
    note = "ended with the job" if on_purpose else left
    lost = TaskState.LOST if note.startswith("lost") else TaskState.STOPPED
    assert {(task.state, task.note, task.since) for task in report.tasks} == {(lost, note, report.ended)}
    assert reason is None or (report.failure is not None and reason in report.failure.reason)


def test_a_later_am_attempt_is_refused(home: Home) -> None:
    """Its own words are the cause, although an earlier one had run the job."""
    folder, record = recorded(home)
    logged(folder, started())
    note = "service account default cannot get secrets"
    report = build_last_report(
        folder, record, ApplicationStatus(alive=False, note=note, given_up=True, is_unstartable=True)
    )
    assert report.failure is not None
    assert (report.failure.cause, report.failure.reason) == (FailureCause.REFUSED, note)
    assert {task.state for task in report.tasks} == {TaskState.LOST}


def test_the_record_knows_better(home: Home) -> None:
    """A result that the log holds is told with all that belongs to it."""
    folder, record = recorded(home)
    events: list[Event] = [*started(), exited(TaskId("worker", 0), 7, 9.0)]
    logged(folder, events)
    status = ApplicationStatus(alive=False, result=JobState.KILLED, note="the application had ended")
    report = build_last_report(folder, record, status)
    assert report.state is JobState.FAILED
    assert report.failure is not None
    assert "code 7" in report.failure.reason


class Elsewhere(Desk):
    """A scheduler whose masters run on other machines."""

    capabilities = CAPABILITIES

    def __init__(self, folder: JobFolder, status: ApplicationStatus | None = None) -> None:
        super().__init__()
        self._folder, self._status = folder, status
        self.swept = 0

    async def application_status(self, job_id: str) -> ApplicationStatus | None:
        if self._status:
            return self._status
        there = locate_am(self._folder)
        assert there is not None
        return ApplicationStatus(alive=True, address=there.address, host="far", attempt=1)

    async def sweep(self, folder: JobFolder) -> None:
        self.swept += 1


async def test_a_job_that_is_being_submitted(home: Home) -> None:
    """Its files are on their way, and the scheduler does not know it: it has not ended, and keeps its secrets."""
    folder, record = recorded(home)
    folder.secret.mkdir(exist_ok=True)
    submitter = Elsewhere(
        folder, ApplicationStatus(alive=False, note="the ResourceManager does not know the application")
    )
    with aborted_submissions.mark_submission(home, JOB):
        report = await remote_job_sync.poll_job(folder, record, submitter)
        assert report is not None
        assert (report.state, report.waiting) == (JobState.SUBMITTED, "it is being submitted")
        assert (folder.summary.exists(), folder.secret.exists(), submitter.swept) == (False, True, 0)
    report = await remote_job_sync.poll_job(folder, record, submitter)
    assert report is not None
    assert (report.state, submitter.swept) == (JobState.FAILED, 1)


async def test_killed_while_it_is_submitted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who kills it waits until there is something to kill."""
    folder, _ = recorded(home)
    submitter = Elsewhere(folder, ApplicationStatus(alive=True))
    monkeypatch.setattr(registry, "load_submitter", lambda *_: submitter)
    with aborted_submissions.mark_submission(home, JOB):
        killing_it = asyncio.ensure_future(kill(home, JOB))
        await asyncio.sleep(0.2)
        assert (killing_it.done(), submitter.swept) == (False, 0)
    await killing_it
    assert submitter.swept == 1


class Bringing(Elsewhere):
    """It brings files, each time it is asked."""

    def __init__(self, folder: JobFolder, status: ApplicationStatus | None, files: Mapping[Path, str]) -> None:
        super().__init__(folder, status)
        self._files = files

    async def fetch(self, folder: JobFolder) -> None:
        for path, text in self._files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    async def describe_foreign(self, job_id: str) -> str:
        return f"{job_id} is ACCEPTED"


async def test_given_up_by_its_scheduler(home: Home) -> None:
    """The AM got only a signal, and no user asked for the end: the cluster has failed the job."""
    folder, record = recorded(home)
    killed = closed(folder, record, SIGTERM)
    status = ApplicationStatus(alive=False, given_up=True, note="node 7 is lost")
    report = await remote_job_sync.poll_job(folder, record, Bringing(folder, status, {folder.summary: killed}))
    assert report is not None
    assert report.failure is not None
    assert (report.state, report.exit_code, report.failure.cause) == (JobState.FAILED, 3, "am-lost")
    assert report.failure.failure_class is FailureClass.INFRASTRUCTURE
    assert report.failure.reason == "the scheduler has given up the application master: node 7 is lost"
    assert read_summary(folder) == report


async def test_its_record_was_deleted(home: Home) -> None:
    """The scheduler cannot say more, and would call it failed."""
    folder, record = recorded(home)
    killed = closed(folder, record, SIGTERM)
    status = ApplicationStatus(alive=False, result=JobState.FAILED, note="unknown", deletion="it was deleted")
    report = await remote_job_sync.poll_job(folder, record, Bringing(folder, status, {folder.summary: killed}))
    assert report is not None
    assert report.failure is not None
    assert (report.state, report.failure.reason) == (JobState.KILLED, "it was deleted")


async def test_its_time_was_over(home: Home) -> None:
    """The scheduler enforces a time limit itself: a timeout as any other, not a user's request."""
    folder, record = recorded(home)
    killed = closed(folder, record, SIGTERM)
    status = ApplicationStatus(alive=False, result=JobState.KILLED, overdue="the job ran longer than 3s (x)")
    report = await remote_job_sync.poll_job(folder, record, Bringing(folder, status, {folder.summary: killed}))
    assert report is not None
    assert report.failure is not None
    assert (report.state, report.exit_code, report.failure.cause) == (JobState.FAILED, 1, "lifetime")
    assert report.failure.failure_class is FailureClass.USER
    assert report.failure.reason == "the job ran longer than 3s (x)"


@pytest.mark.parametrize("away", [False, True])
async def test_a_follower_asks_the_scheduler_for_the_cause_of_a_signal(home: Home, away: bool) -> None:
    """The AM's last report has the signal only: its scheduler is asked, once it reports that the job has ended."""
    folder, record = recorded(home)
    by_signal = killed_by(SIGTERM)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    last = replace(running, state=JobState.KILLED, exit_code=4, failure=by_signal)
    seen = [
        ApplicationStatus(alive=True),
        ApplicationStatus(alive=False, result=JobState.KILLED, overdue="longer than 3s"),
    ]

    class Slow(Elsewhere):
        async def application_status(self, job_id: str) -> ApplicationStatus | None:
            if away:
                raise SchedulerError("no daemon answers")
            return seen.pop(0)

    report = await remote_job_sync.build_last_am_report(folder, Slow(folder), last)
    assert report.failure is not None
    assert (report.exit_code, report.failure.reason) == (
        (4, "killed by signal SIGTERM") if away else (1, "longer than 3s")
    )
    assert read_summary(folder) == report


@pytest.mark.parametrize(
    ("actor", "cause", "swept"),
    [
        (Actor("YARN: by bob", ActorKind.SCHEDULER), FailureCause.KILLED, 1),
        (None, FailureCause.LIFETIME, 1),
        (None, FailureCause.AM_LOST, 1),
        (Actor("bob"), FailureCause.KILLED, 0),
    ],
)
async def test_a_master_that_its_scheduler_kills_leaves_nothing(
    home: Home, actor: Actor | None, cause: FailureCause, swept: int
) -> None:
    """It has told its followers the end, and then has hardly time to remove what it has stored; otherwise it has."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    failure = replace(killed_by(SIGTERM), actor=actor, cause=cause)
    last = replace(running, state=JobState.FAILED, exit_code=1, failure=failure)
    submitter = Elsewhere(folder, ApplicationStatus(alive=False, result=JobState.KILLED))
    await remote_job_sync.build_last_am_report(folder, submitter, last)
    assert submitter.swept == swept


@pytest.mark.parametrize("result", [JobState.KILLED, None])
async def test_the_cause_of_a_signal(home: Home, result: JobState | None) -> None:
    """The AM has got a signal only; where the scheduler was asked to end the job, it knows why."""
    folder, record = recorded(home)
    killed = closed(folder, record, SIGTERM)
    submitter = Bringing(
        folder, ApplicationStatus(alive=False, result=result, note="by user bob"), {folder.summary: killed}
    )
    report = await remote_job_sync.poll_job(folder, record, submitter)
    assert report is not None
    assert report.failure is not None
    assert report.failure.reason == ("by user bob" if result else "killed by signal SIGTERM")
    assert read_summary(folder) == report


@pytest.mark.parametrize(
    ("actor", "told"),
    [
        (Actor("SIGTERM", ActorKind.SIGNAL), "by user bob"),
        (Actor("ann"), "killed by ann"),
        (Actor("signal SIGTERM"), "killed by signal SIGTERM"),
        (Actor("YARN: no", ActorKind.SCHEDULER), "killed by YARN: no"),
    ],
)
async def test_the_cause_of_a_signal_from_the_log_alone(home: Home, actor: Actor, told: str) -> None:
    """The same for an AM that could write no summary; an actor in the log takes precedence."""
    folder, record = recorded(home)
    logged(folder, [*started(), KillRequested(actor=actor, now=True)])
    submitter = Elsewhere(folder, ApplicationStatus(alive=False, result=JobState.KILLED, note="by user bob"))
    report = await remote_job_sync.poll_job(folder, record, submitter)
    assert report is not None
    assert report.failure is not None
    assert (report.exit_code, report.failure.reason) == (4, told)


async def test_secrets_that_come_back(home: Home) -> None:
    """The job has ended, told by another process of ours, while this one fetched them once more: they go again."""
    folder, record = recorded(home)
    ended = closed(folder, record, Actor("ann"))
    brought = {folder.credentials: "{}", folder.summary: ended}
    remote_job_sync.forget_secrets(folder)
    folder.kill_request.write_text("{}")
    submitter = Bringing(folder, ApplicationStatus(alive=True, address="tls:far:1", host="far", attempt=1), brought)
    assert await remote_job_sync.poll_job(folder, record, submitter) is None
    assert not folder.secret.exists()
    assert not folder.kill_request.exists()


@pytest.mark.parametrize("note", ["", "its application master ended, and is started again: exit code 137"])
async def test_a_master_that_listens_no_more(home: Home, monkeypatch: pytest.MonkeyPatch, note: str) -> None:
    """Its log gives the state; why the end is not known yet is reported, and is no error."""
    folder, _ = recorded(home)
    logged(folder, started())
    monkeypatch.setattr(job_status, "ANSWER_TIMEOUT_SECONDS", 0.1)
    status = ApplicationStatus(alive=True, address="unix:/no/such/socket", host="far", attempt=1, note=note)
    monkeypatch.setattr(registry, "load_submitter", lambda *_: Elsewhere(folder, status))
    report = await job_status.load_report(home, JOB)
    assert report.state is JobState.RUNNING
    assert mentions(report.waiting, note or "unix:/no/such/socket")


async def test_a_master_that_ended_while_it_was_asked(home: Home) -> None:
    """The summary is there by now, and is the answer; the scheduler knows who sent the signal."""
    folder, record = recorded(home)
    status = ApplicationStatus(alive=False, result=JobState.KILLED, note="by user bob")
    submitter = Bringing(folder, status, {folder.summary: closed(folder, record, SIGTERM)})
    report = await remote_job_sync.report_unanswered(folder, record, submitter)
    assert report.failure is not None
    assert (report.state, report.waiting, report.failure.reason) == (JobState.KILLED, "", "by user bob")
    assert read_summary(folder) == report


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_scheduler_that_is_away(home: Home, hangs: bool) -> None:
    """A master of which we know is asked without it; where that one is gone as well, it is the scheduler's trouble."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    back = asyncio.Event()

    class Away(Elsewhere):
        async def application_status(self, job_id: str) -> ApplicationStatus | None:
            if hangs:
                await back.wait()
            raise SchedulerError("no daemon answers")

    async with FakeAm(folder, running) as master:
        assert await remote_job_sync.poll_job(folder, record, Away(folder)) == replace(running, folder=str(folder.path))
        by_signal = killed_by(SIGTERM)
        master.change(replace(running, state=JobState.KILLED, failure=by_signal))
        back.set()
        with pytest.raises(SchedulerError, match="no daemon answers"):
            await remote_job_sync.poll_job(folder, record, Away(folder))
    with pytest.raises(SchedulerError, match="no daemon answers"):
        await remote_job_sync.poll_job(folder, record, Away(folder))


@pytest.mark.parametrize("ended", [True, False])
async def test_a_scheduler_that_is_away_and_a_record_that_is_not(home: Home, ended: bool) -> None:
    """What the master has left in the cluster's file system is enough: the last report, or where it listens."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    killed = closed(folder, record, Actor("ann"))

    class Away(Bringing):
        async def application_status(self, job_id: str) -> ApplicationStatus | None:
            raise SchedulerError("no daemon answers")

    async with FakeAm(folder, running):
        secret, there = folder.credentials.read_text(), folder.am.read_text()
        folder.credentials.unlink()
        folder.am.unlink()
        brings = {folder.summary: killed} if ended else {folder.credentials: secret, folder.am: there}
        report = await remote_job_sync.poll_job(folder, record, Away(folder, None, brings))
        assert report is not None
        assert report.state is (JobState.KILLED if ended else JobState.RUNNING)
        assert folder.am.exists() is not ended


async def test_a_restarted_scheduler(home: Home) -> None:
    """It knows the job, but no AM of it yet: a known AM gives the status, else the log. The job has started."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    submitter = Elsewhere(folder, ApplicationStatus(alive=True))
    pending = await remote_job_sync.poll_job(folder, record, submitter)
    assert pending is not None
    assert (pending.state, pending.waiting) == (JobState.SUBMITTED, "waiting for its application master")
    logged(folder, started())
    async with FakeAm(folder, running):
        assert await remote_job_sync.poll_job(folder, record, submitter) == replace(running, folder=str(folder.path))
    told = await remote_job_sync.poll_job(folder, record, submitter)
    assert told is not None
    assert (told.state, told.waiting) == (
        JobState.RUNNING,
        "waiting for its application master to register again",
    )


class WithoutFiles(Elsewhere):
    """The file system with the job's record is away."""

    async def fetch(self, folder: JobFolder) -> None:
        raise SchedulerError("no NameNode answers:\n  no listener there")


async def test_its_master_and_its_record_are_out_of_reach(home: Home) -> None:
    """What was heard here last is told, and why it is not more; as soon as the log has more, that is told."""
    folder, record = recorded(home)
    running = replace(standing(folder, record, JobState.RUNNING, TaskState.RUNNING), session=2, submitted=LONG_AGO + 2)
    async with FakeAm(folder, running):
        await remote_job_sync.poll_job(folder, record, Elsewhere(folder))
    gap = ApplicationStatus(alive=True, attempt=2, note="waiting for resources to be assigned for AM")
    report = await remote_job_sync.poll_job(folder, record, WithoutFiles(folder, gap))
    assert report == replace(
        running,
        folder=str(folder.path),
        attempt=2,
        am=None,
        waiting=(
            "AM attempt 1 died; waiting for AM attempt 2: waiting for resources to be assigned for AM. "
            "Its job directory cannot be read (no NameNode answers); showing the last known status"
        ),
    )
    folder.events(1).unlink()
    logged(folder, started())
    again = await remote_job_sync.poll_job(folder, record, Elsewhere(folder, gap))
    assert again is not None
    assert (again.session, again.submitted) == (2, LONG_AGO + 2)
    write_json(folder.heard, to_plain(replace(running, session=1)))
    newer = await remote_job_sync.poll_job(folder, record, Elsewhere(folder, gap))
    assert newer is not None
    assert (newer.session, newer.submitted, newer.tasks[0].pid) == (1, LONG_AGO + 2, 60)
    remote_job_sync.keep(folder, replace(newer, state=JobState.SUCCEEDED))
    assert not folder.heard.exists()


async def test_a_job_without_a_record(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler tells how it stands; nothing of it is kept here."""
    folder = home.job(JOB)
    place = SimpleNamespace(create_submitter=lambda _: Bringing(folder, None, {}))
    monkeypatch.setattr(registry, "find_owner", lambda _: "elsewhere")
    monkeypatch.setattr(registry, "load", lambda _: place)
    with pytest.raises(SchedulerError, match=f"^{JOB} is ACCEPTED$"):
        await remote_job_sync.adopt(home, JOB)
    assert not folder.path.exists()


def killed_by(actor: Actor) -> Failure:
    """The failure of a job that a user killed."""
    kind = FailureClass.KILLED
    return Failure(
        failure_class=kind, cause=FailureCause.KILLED, reason=f"killed by {actor}", session=1, at=1.0, actor=actor
    )


def closed(folder: JobFolder, record: JobRecord, actor: Actor) -> str:
    """The summary that the master of a killed job has written."""
    ended = standing(folder, record, JobState.KILLED, TaskState.STOPPED)
    report = replace(ended, failure=killed_by(actor), exit_code=4)
    return json.dumps(to_plain(report))


async def test_a_remote_am_that_hangs(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another machine cannot be killed from here: the scheduler does it."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    submitter = Elsewhere(folder)

    async def deaf(*_: object) -> None:
        raise ConnectionFailedError("no answer")

    monkeypatch.setattr(actions, "send_command", deaf)
    monkeypatch.setattr(registry, "load_submitter", lambda *_: submitter)
    async with FakeAm(folder, running):
        assert (await kill(home, JOB)).job == JOB
    assert submitter.swept == 1


@pytest.mark.parametrize(("hangs", "has_log"), [(False, True), (True, True), (False, False)])
async def test_an_event_log_needs_no_scheduler(
    home: Home, monkeypatch: pytest.MonkeyPatch, hangs: bool, has_log: bool
) -> None:
    """Whether it fails or says nothing at all; without a copy of the log its error is reported."""
    folder, _ = recorded(home)

    class Away(Bringing):
        async def application_status(self, job_id: str) -> ApplicationStatus | None:
            if hangs:
                await asyncio.Event().wait()
            raise SchedulerError("no ResourceManager answers")

    brought = {folder.events(1): "{}\n"} if has_log else {}
    monkeypatch.setattr(registry, "load_submitter", lambda *_: Away(folder, None, brought))
    expected = nullcontext() if has_log else pytest.raises(SchedulerError, match="no ResourceManager answers")
    with expected:
        await asyncio.wait_for(remote_job_sync.refresh(home, JOB), 20)
    assert folder.events(1).exists() is has_log
