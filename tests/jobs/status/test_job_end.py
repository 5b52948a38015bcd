"""A job whose application master died gets its verdict: once, and the right one."""

from __future__ import annotations

import asyncio
import fcntl
import os
from dataclasses import replace

import pytest

from tests.facts import mentions
from tests.jobs.fake_am import JOB, LONG_AGO, TWO_WORKERS, logged, recorded, succeeded
from tony import clock
from tony.core import events as ev
from tony.core.application import Application
from tony.core.events import Event
from tony.history.event_log import settings_digest
from tony.history.job_record import KillRequest, read_summary, save_kill_request, write_summary
from tony.history.json_files import write_json
from tony.jobs.status.job_end import close_lost
from tony.jobs.status.report_from_log import build_last_report
from tony.model.actor import Actor
from tony.model.failure import FailureClass
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers.client_interface import ApplicationStatus, Submitter
from tony.schedulers.registry import load_submitter

Recorded = tuple[JobFolder, JobRecord]
WORKERS = tuple(TaskId("worker", index) for index in range(2))


@pytest.fixture
def job(home: Home) -> Recorded:
    return recorded(home)


def started() -> list[Event]:
    """Events that bring both workers to run."""
    events: list[Event] = [
        ev.AttemptStarted(attempt=1, wall=LONG_AGO + 1.0, settings=settings_digest(TWO_WORKERS), pid=4711, host="here"),
        ev.ContainersFound(containers=()),
        ev.ReconcileClosed(),
        ev.SessionOpened(session=1, reason="the job begins"),
    ]
    for task in WORKERS:
        container = f"c{task.index}"
        events.append(ev.Granted(container=container, role="worker", host="here"))
        events.append(
            ev.Registered(task=task, container=container, incarnation=container, session=1, address="here:1", pid=50)
        )
    return [*events, *(ev.Started(task=task, session=1, try_=1, pid=60 + task.index) for task in WORKERS)]


def exited(task: TaskId, code: int, at: float) -> ev.Exited:
    status = ExitStatus(reason=ExitReason.EXITED, code=code, tail=("last words",))
    return ev.Exited(task=task, session=1, try_=1, status=status, at=at)


def submitter(home: Home, record: JobRecord) -> Submitter:
    """The real one of the local scheduler."""
    return load_submitter(home, record)


def states(report: JobReport) -> list[TaskState]:
    return [task.state for task in report.tasks]


def test_a_job_that_ran_is_lost(job: Recorded) -> None:
    """The verdict names the process, and quotes its log; the tasks are lost with it."""
    folder, record = job
    logged(folder, started())
    folder.am_log.write_text("one\nKilled\n")
    os.utime(folder.am_log, (LONG_AGO + 30, LONG_AGO + 30))
    report = build_last_report(folder, record)
    assert (report.state, report.exit_code, report.am) == (JobState.FAILED, 3, None)
    assert states(report) == [TaskState.LOST] * 2
    assert [(task.pid, task.executor_pid) for task in report.tasks] == [(None, None)] * 2
    assert {task.since for task in report.tasks} == {report.ended} == {LONG_AGO + 30}
    failure = report.failure
    assert failure is not None
    assert (failure.cause, failure.failure_class) == ("am-lost", FailureClass.INFRASTRUCTURE)
    assert failure.reason.startswith("the application master (pid 4711 on here) died")
    assert f"{folder.am_log}." in failure.reason
    assert (failure.tail, failure.log, failure.session) == (("one", "Killed"), "am.log", 1)
    there = {"pid": 4711, "host": "here", "attempt": 1, "address": "unix:/x"}
    write_json(folder.am, {**there, "supervisor": None})  # it had given up
    assert build_last_report(folder, record) == report
    write_json(folder.am, {**there, "supervisor": 4710})
    killed = build_last_report(folder, record).failure
    assert killed is not None
    assert killed.reason.startswith(f"{failure.reason} Its supervisor (pid 4710)")


def test_what_the_scheduler_says_of_a_lost_master_is_in_the_reason(job: Recorded) -> None:
    """It has failed the job, but has no result of its own."""
    logged(job[0], started())
    status = ApplicationStatus(alive=False, given_up=True, note="the kernel killed it at its memory limit")
    failure = build_last_report(*job, status).failure
    assert failure
    assert failure.reason.endswith("The scheduler reports: the kernel killed it at its memory limit")


@pytest.mark.parametrize(
    ("more", "state", "exit_code", "tasks"),
    [
        ([exited(WORKERS[0], 0, 5.0)], JobState.FAILED, 3, [TaskState.SUCCEEDED, TaskState.LOST]),
        ([exited(WORKERS[0], 0, 5.0), exited(WORKERS[1], 0, 6.0)], JobState.SUCCEEDED, 0, [TaskState.SUCCEEDED] * 2),
        ([exited(WORKERS[1], 3, 5.0)], JobState.FAILED, 1, [TaskState.STOPPED, TaskState.FAILED]),
        ([ev.KillRequested(actor=Actor("ann"))], JobState.KILLED, 4, [TaskState.STOPPED] * 2),
    ],
)
def test_what_was_decided_is_kept(
    job: Recorded, more: list[Event], state: JobState, exit_code: int, tasks: list[TaskState]
) -> None:
    """Tasks that had ended, a success, the failure of a program, a kill; only what was not decided is lost."""
    folder, record = job
    logged(folder, [*started(), *more])
    report = build_last_report(folder, record)
    assert (report.state, report.exit_code, states(report)) == (state, exit_code, tasks)
    causes = {3: ("am-lost", None), 1: ("program", TaskId("worker", 1)), 4: ("killed", None)}
    assert (report.failure and (report.failure.cause, report.failure.task)) == causes.get(exit_code)


def test_before_the_first_container(job: Recorded) -> None:
    """Nothing was lost: nothing had been started."""
    folder, record = job
    logged(folder, started()[:4])
    report = build_last_report(folder, record)
    assert [(task.state, task.note) for task in report.tasks] == [(TaskState.STOPPED, "never started")] * 2


def test_before_the_first_start(job: Recorded) -> None:
    """Their executors were lost."""
    folder, record = job
    logged(folder, started()[:-2])
    report = build_last_report(folder, record)
    assert [(task.state, task.note) for task in report.tasks] == [
        (TaskState.LOST, "lost with the application master")
    ] * 2


def test_before_the_first_event(job: Recorded) -> None:
    """It died while it came up."""
    folder, record = job
    folder.am_log.write_text("ImportError: no\n")
    report = build_last_report(folder, record)
    assert report.failure is not None
    assert report.failure.reason.startswith("the application master died, and the job with it")
    assert report.failure.tail == ("ImportError: no",)


async def test_a_job_without_master_is_killed(home: Home, job: Recorded) -> None:
    """The client ends the programs; the outcome is killed, not lost."""
    folder, record = job
    logged(folder, started())
    save_kill_request(folder, KillRequest(actor="ann"))
    report = await close_lost(folder, record, submitter(home, record))
    assert report is not None
    assert report.state is JobState.KILLED
    assert {(task.state, task.note) for task in report.tasks} == {(TaskState.STOPPED, "ended with the job")}


def test_never_started(job: Recorded) -> None:
    """The client died between the record and the start."""
    folder, record = job
    report = build_last_report(folder, record)
    assert report.failure is not None
    assert report.failure.reason.startswith("the application master was never started")
    assert report.ended == record.submitted


def test_a_damaged_log_is_no_obstacle(job: Recorded) -> None:
    """The job is closed all the same, and the damage is said."""
    folder, record = job
    logged(folder, started()[:2])
    with folder.events(1).open("a") as file:
        file.write("nonsense\n")
    report = build_last_report(folder, record)
    assert report.failure is not None
    assert "Its event log is damaged" in report.failure.reason
    assert report.state is JobState.FAILED


def test_nothing_is_decided_beyond_a_gap(job: Recorded) -> None:
    """The missing event may have been a kill, after which a program's exit is no failure of its own."""
    folder, record = job
    before = started()
    logged(folder, before)
    logged(folder, [exited(WORKERS[1], 143, 5.0)], attempt=2, first_seq=len(before) + 2)
    report = build_last_report(folder, record)
    assert states(report) == [TaskState.LOST] * 2
    assert report.failure is not None
    assert report.failure.cause == "am-lost"
    assert f"event {len(before) + 1} is missing" in report.failure.reason


def test_nothing_is_decided_with_other_settings(job: Recorded) -> None:
    """With other limits another end may follow from the same events."""
    folder, record = job
    logged(folder, [*started(), exited(WORKERS[1], 3, 5.0)])
    report = build_last_report(folder, replace(record, spec=replace(record.spec, max_restarts=7)))
    assert report.failure is not None
    assert (report.failure.cause, states(report)) == ("am-lost", [TaskState.STOPPED] * 2)
    assert "other settings" in report.failure.reason


@pytest.mark.parametrize("broken_method", ["__init__", "handle"])
def test_a_bug_in_the_machine_is_no_obstacle(
    job: Recorded, monkeypatch: pytest.MonkeyPatch, broken_method: str
) -> None:
    """What killed the master would otherwise keep every reader from closing the job."""
    folder, record = job
    logged(folder, started())

    def broken(*_: object) -> None:
        raise LookupError("no such thing")

    monkeypatch.setattr(Application, broken_method, broken)
    report = build_last_report(folder, record)
    assert report.failure is not None
    assert mentions(report.failure.reason, "LookupError", "a bug in tony")


async def test_closing_removes_secrets_and_addresses(home: Home, job: Recorded) -> None:
    """Secrets, and the address of a process that is gone."""
    folder, record = job
    folder.am.write_text("{}")
    folder.am_socket.touch()
    report = await close_lost(folder, record, submitter(home, record))
    assert report == read_summary(folder)
    assert [path.exists() for path in (folder.secret, folder.am, folder.am_socket)] == [False] * 3


async def test_one_closes_and_the_others_look_again(home: Home, job: Recorded) -> None:
    """Many readers at once make one summary."""
    folder, record = job
    answers = await asyncio.gather(*(close_lost(folder, record, submitter(home, record)) for _ in range(8)))
    summary = read_summary(folder)
    assert summary is not None
    assert {None, summary} >= set(answers)
    assert summary in answers


async def test_a_living_master_keeps_closers_out(home: Home, job: Recorded) -> None:
    """Its lock is the one that closers take."""
    folder, record = job
    lock = os.open(folder.am_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert await close_lost(folder, record, submitter(home, record)) is None
        assert read_summary(folder) is None
    finally:
        os.close(lock)


async def test_the_summary_of_an_am_that_ended_meanwhile_counts(home: Home, job: Recorded) -> None:
    """It was written between the two checks of its lock."""
    folder, record = job
    write_summary(folder, succeeded(folder, record))
    assert await close_lost(folder, record, submitter(home, record)) == succeeded(folder, record)


async def test_programs_that_were_left_behind_are_ended(home: Home, job: Recorded) -> None:
    """Whatever carries the job's mark."""
    folder, record = job
    mark = {"TONY_TASK": f"{JOB}/c0/nonce", "PATH": os.environ["PATH"]}
    program = await asyncio.create_subprocess_exec("sleep", "600", env=mark)
    try:
        await close_lost(folder, record, submitter(home, record))
        async with asyncio.timeout(20.0):
            assert await program.wait() != 0
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


def test_the_time_of_the_end_is_not_in_the_future(job: Recorded) -> None:
    """A clock that was set back since must not make a job end tomorrow."""
    folder, record = job
    folder.am_log.write_text("x")
    later = clock.wall() + 1e6
    os.utime(folder.am_log, (later, later))
    ended = build_last_report(folder, record).ended
    assert ended is not None
    assert ended <= clock.wall()
