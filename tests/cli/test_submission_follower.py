"""Following a job from the command line: what is printed where, Ctrl-C, and the exit code."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from dataclasses import replace
from typing import TextIO

import click
import pytest

from tests.cli.in_process_am import Beside, living
from tests.cli.screen import Terminal
from tests.facts import mentions
from tests.jobs.fake_am import (
    FAILURE,
    JOB,
    failed,
    recorded,
    standing,
    succeeded,
    write_log,
)
from tony.cli import plain_status, submission_follower
from tony.cli.live_status import LiveView
from tony.cli.plain_status import PlainView
from tony.cli.submission_follower import create_view, exit_code, follow_and_report, follow_to_end
from tony.cli.submission_signals import SignalGuard
from tony.errors import ExitCode, SchedulerError
from tony.history.job_record import write_summary
from tony.model.failure import FailureCause, FailureClass
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord
from tony.schedulers.local.capabilities import CAPABILITIES
from tony.schedulers.local.submitter import LocalSubmitter

Recorded = tuple[JobFolder, JobRecord]


@pytest.fixture(autouse=True)
def plain_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always the same time of day."""
    monkeypatch.setattr(plain_status, "format_stamp", lambda: "12:00:00 ")


@pytest.fixture
def job(home: Home) -> Recorded:
    return recorded(home)


def running(job: Recorded) -> JobReport:
    report = standing(*job, JobState.RUNNING, TaskState.RUNNING)
    return replace(report, tasks=tuple(replace(task, pid=7) for task in report.tasks))


def killed(job: Recorded) -> JobReport:
    failure = replace(
        FAILURE, failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="killed by ann", task=None
    )
    return replace(failed(*job, failure), state=JobState.KILLED, exit_code=4)


def test_the_whole_story(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """States and output on standard output, with the time; why it failed on standard error."""
    folder, _ = job

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        write_log(folder, "worker-1.s1.t1.out", "loss [red]0.1[/]\n")
        beside.finish(failed(*job))

    with living(folder, running(job)) as beside, beside.story(tell):
        report = follow_to_end(home, JOB, sys.stdout)
    captured = capsys.readouterr()
    assert exit_code(report) == 1
    assert sorted(captured.out.splitlines()) == [
        "12:00:00 Started worker:0 on here (pid 7)",
        "12:00:00 Started worker:1 on here (pid 7)",
        "12:00:00 worker:0 stopped",
        "12:00:00 worker:1 failed: exit code 3",
        "12:00:00 worker:1 | loss [red]0.1[/]",
    ]
    assert captured.err.startswith(f"job {JOB} (digits) failed after 8 s: worker:1 on here: exit code 3\n")


def test_ctrl_c_stops_the_job(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one asks for its end, the second for its end at once; both say so, and the end is waited for."""
    folder, _ = job

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            beside.wait(lambda count=count: len(beside.master.kills) == count)  # type: ignore[misc]
        beside.finish(killed(job))

    with living(folder, running(job)) as beside:
        with beside.story(tell):
            report = follow_to_end(home, JOB, sys.stdout)
        assert [message.now for message in beside.master.kills] == [False, True]
    captured = capsys.readouterr()
    assert exit_code(report) == 4
    stopping, killing = (line for line in captured.out.splitlines() if "Ctrl-C" in line)
    assert mentions(stopping, "Stopping", JOB)
    assert mentions(killing, "Killing", JOB)
    assert mentions(captured.err, f"job {JOB}", "8 s", "killed", "ann")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_third_ctrl_c_leaves(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = job

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            beside.wait(lambda count=count: len(beside.master.kills) == count)  # type: ignore[misc]
        os.kill(os.getpid(), signal.SIGINT)

    with living(folder, running(job)) as beside, beside.story(tell), pytest.raises(KeyboardInterrupt):
        follow_to_end(home, JOB, sys.stdout)
    assert mentions(capsys.readouterr().out, f"job {JOB}", f"tony status {JOB}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_logout_leaves_the_job_alone(
    home: Home, job: Recorded, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    folder, _ = job

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        os.kill(os.getpid(), number)

    with living(folder, running(job)) as beside, beside.story(tell), pytest.raises(click.exceptions.Exit) as left:
        follow_to_end(home, JOB, sys.stdout)
    assert left.value.exit_code == 128 + number
    assert beside.master.kills == []
    assert mentions(capsys.readouterr().err, f"job {JOB}", f"tony kill {JOB}")


def test_a_logout_before_the_job_is_followed(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """The client says that the job continues as soon as it follows it."""
    early = SignalGuard()
    early.defer_termination()
    for _ in range(2):  # `timeout` sends one to its child, and one to the process group
        os.kill(os.getpid(), signal.SIGTERM)
    with living(job[0], running(job)) as beside, pytest.raises(click.exceptions.Exit) as left:
        follow_to_end(home, JOB, sys.stdout, early)
    assert left.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert beside.master.kills == []
    assert f"tony attach {JOB}" in capsys.readouterr().err


def test_leaving_with_a_closed_terminal(home: Home, job: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is closed as well: no other error than that the user left."""
    folder, _ = job
    reading, writing = os.pipe()
    os.close(reading)
    closed = os.fdopen(writing, "w", buffering=1)

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(sys, "stderr", closed)
    with living(folder, running(job)) as beside, beside.story(tell), pytest.raises(click.exceptions.Exit):
        follow_to_end(home, JOB, sys.stdout)
    os.dup2(os.open(os.devnull, os.O_WRONLY), closed.fileno())
    closed.close()


def test_a_closed_pipe(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """The job continues, and the output says so."""
    folder, _ = job
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        with living(folder, running(job)), pytest.raises(BrokenPipeError):
            follow_to_end(home, JOB, broken)
        os.dup2(os.open(os.devnull, os.O_WRONLY), broken.fileno())
    assert mentions(capsys.readouterr().err, f"job {JOB}", f"tony kill {JOB}")


def test_exit_codes(job: Recorded) -> None:
    """What the application master says; without its word a success is one, and nothing else is."""
    last = succeeded(*job)
    assert exit_code(replace(last, exit_code=3)) == 3
    assert exit_code(replace(last, exit_code=None)) == 0
    assert exit_code(replace(last, exit_code=None, state=JobState.FAILED)) == ExitCode.BUG


@pytest.mark.parametrize(
    ("stream", "term", "live"),
    [
        (Terminal(), "xterm", True),
        (Terminal(), "dumb", False),
        (Terminal(), None, False),
        (io.StringIO(), "xterm", False),
    ],
)
def test_a_table_needs_a_terminal(
    stream: TextIO, term: str | None, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    if term:
        monkeypatch.setenv("TERM", term)
    with create_view(stream) as view:
        assert isinstance(view, LiveView if live else PlainView)


def test_a_lost_am_is_reported(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, the process and its log are named."""
    folder, _ = job
    report = follow_to_end(home, JOB, sys.stdout)
    assert exit_code(report) == 3
    assert f"AM log: {folder.am_log}" in capsys.readouterr().err


def test_an_ended_job(home: Home, job: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    write_summary(job[0], succeeded(*job))
    assert exit_code(follow_to_end(home, JOB, sys.stdout)) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == f"12:00:00 job {JOB} (digits) succeeded after 8 s"
    assert captured.err == ""


@pytest.mark.parametrize("error", [SchedulerError("gone"), OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_history_that_cannot_be_fetched_changes_no_outcome(
    home: Home,
    job: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
) -> None:
    """Of a cluster that removes it after a while."""
    folder, record = job
    write_summary(folder, succeeded(*job))
    monkeypatch.setattr(LocalSubmitter, "capabilities", replace(CAPABILITIES, history_expires=True))
    fetched: list[str] = []

    async def fail(home: Home, job_id: str) -> None:
        fetched.append(job_id)
        raise error

    monkeypatch.setattr(submission_follower, "refresh", fail)
    assert follow_and_report(home, JOB, record.spec, as_json=True) == 0
    assert (fetched, json.loads(capsys.readouterr().out)["state"]) == ([JOB], "succeeded")
