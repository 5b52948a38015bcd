"""The last report of a job that its application master had to break off."""

from __future__ import annotations

import pytest

from tony.am.fatal_errors import report_fatal_error
from tony.errors import (
    ArchiveError,
    AttemptLostError,
    ConfigError,
    ConnectionFailedError,
    InvalidTransitionError,
    PlatformError,
    Problem,
    SchedulerError,
    SchedulerLostError,
    StorageError,
    TimeLimitExceededError,
)
from tony.jobs.root_cause import build_root_cause
from tony.model.diagnosis import FailureKind
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import AmReport, JobReport, TaskReport
from tony.model.states import JobState, TaskState

USER, INFRASTRUCTURE, PLATFORM = FailureClass.USER, FailureClass.INFRASTRUCTURE, FailureClass.PLATFORM


def standing(*tasks: TaskReport, failure: Failure | None = None) -> JobReport:
    """A job in the middle of its life."""
    return JobReport(
        job="j",
        name="job",
        state=JobState.RUNNING,
        session=2,
        attempt=1,
        exit_code=None,
        folder="/f",
        am=AmReport(pid=7, host="here"),
        tasks=tasks,
        failure=failure,
        submitted=1000.0,
        waiting="for something",
    )


CAUSES = [
    (SchedulerError("the cluster is away"), INFRASTRUCTURE, "refused", 3, "the cluster is away"),
    (ConnectionFailedError("no listener"), INFRASTRUCTURE, "refused", 3, "no listener"),
    (SchedulerLostError("the RM is away"), INFRASTRUCTURE, "scheduler-lost", 3, "the RM is away"),
    (AttemptLostError("its node is lost"), INFRASTRUCTURE, "am-lost", 3, "its node is lost"),
    (TimeLimitExceededError("its time has ended"), USER, "lifetime", 1, "its time has ended"),
    (StorageError("no space"), INFRASTRUCTURE, "storage", 3, "no space"),
    (ConfigError([Problem(key="tls", message="final.")]), USER, "refused", 2, "tls: final."),
    (ArchiveError("env.tar.gz is damaged"), USER, "refused", 2, "env.tar.gz is damaged"),
    (PlatformError("the adapter failed"), PLATFORM, "bug", 70, "the adapter failed"),
    (InvalidTransitionError("cannot"), PLATFORM, "bug", 70, "cannot"),
    (KeyError("x"), PLATFORM, "bug", 70, "a bug in the application master: KeyError: 'x'"),
]


@pytest.mark.parametrize(("error", "failure_class", "cause", "exit_code", "reason"), CAUSES)
def test_errors_are_classified_by_their_type(
    error: Exception, failure_class: FailureClass, cause: str, exit_code: int, reason: str
) -> None:
    """By the tree of errors; exit code, cause and message."""
    last = report_fatal_error(standing(), error, 1012.5)
    assert (last.state, last.exit_code, last.am, last.waiting, last.ended) == (
        JobState.FAILED,
        exit_code,
        None,
        "",
        1012.5,
    )
    assert last.failure
    assert (last.failure.failure_class, last.failure.cause, last.failure.reason) == (failure_class, cause, reason)
    assert (last.failure.session, last.failure.at, last.failure.log) == (2, 12.5, "am.log")


def test_a_bug_is_named_with_its_line() -> None:
    try:
        raise ExceptionGroup("tasks", [ValueError("x")])
    except ExceptionGroup as group:
        error = group
    last = report_fatal_error(standing(), error, 1012.5)
    cause = build_root_cause(last)
    assert cause
    assert (cause.class_, cause.evidence[0].place, cause.evidence[0].text) == (
        FailureKind.OURS,
        "am.log",
        "ValueError: x",
    )
    assert "report it" in cause.advice


def test_all_errors_are_reported() -> None:
    """The first is the reason, the others are listed with it, and so is the error before."""
    problems = ConfigError([Problem(key="tls", message="final."), Problem(key="roles", message="too many.")])
    before = Failure(
        failure_class=USER,
        cause=FailureCause.PROGRAM,
        reason="worker:0 failed",
        session=1,
        at=1.0,
        others=("worker:1 failed",),
    )
    last = report_fatal_error(standing(failure=before), problems, 1001.0)
    assert last.failure
    assert last.failure.reason == "tls: final."
    assert last.failure.others == ("roles: too many.", "worker:0 failed", "worker:1 failed")


def test_a_signal_at_the_deadline() -> None:
    killed = Failure(
        failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="by SIGTERM", session=1, at=1.0
    )
    last = report_fatal_error(standing(failure=killed), TimeLimitExceededError("its time has ended"), 1012.5)
    assert last.failure
    assert (last.failure.reason, last.failure.others) == ("its time has ended", ())


def test_nothing_of_it_runs_any_more() -> None:
    """Tasks that had ended stay as they were; the others were stopped, or never started."""
    running, unstarted = [TaskState.RUNNING, TaskState.STOPPING], [TaskState.REQUESTED, TaskState.REGISTERED]
    states = [TaskState.SUCCEEDED, TaskState.FAILED, *running, *unstarted]
    tasks = [
        TaskReport(
            task=f"w:{n}", role="w", index=n, state=state, pid=5, executor_pid=6, note="so", since=1.0, exit_code=3
        )
        for n, state in enumerate(states)
    ]
    last = report_fatal_error(standing(*tasks), ValueError(), 1001.0)
    assert [(t.state, t.note, t.since) for t in last.tasks] == [
        (TaskState.SUCCEEDED, "so", 1.0),
        (TaskState.FAILED, "so", 1.0),
        (TaskState.STOPPED, "stopped when the job was aborted", 1001.0),
        (TaskState.STOPPED, "stopped when the job was aborted", 1001.0),
        (TaskState.STOPPED, "never started", 1001.0),
        (TaskState.STOPPED, "never started", 1001.0),
    ]
    assert {t.executor_pid for t in last.tasks} == {None}
    assert [t.pid for t in last.tasks[2:]] == [None] * 4
