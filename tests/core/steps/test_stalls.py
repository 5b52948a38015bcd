"""What follows from a stalled session: a report, a restart, or the end of the job."""

from __future__ import annotations

from dataclasses import replace

from tests.core.simulated import seen, started
from tests.core.specs import OK, task, with_restarts, workers
from tests.support.simulation import Simulation
from tony.core import events as ev
from tony.errors import ExitCode
from tony.model.diagnosis import FailureKind
from tony.model.failure import FailureCause
from tony.model.setting_choices import OnStall
from tony.model.states import JobState

FRAME = "recv at train.py:88"


def stalled(on_stall: OnStall, restarts: int = 0) -> Simulation:
    cluster = started(with_restarts(replace(workers(2), on_stall=on_stall), restarts))
    reason = f"worker:1 is in {FRAME}"
    since = max(0.0, cluster.now - 50.0)
    cluster.deliver(ev.Stalled(session=1, since=since, what="step", reason=reason, task=task("worker:1"), frame=FRAME))
    return cluster


def test_a_stall_is_reported_until_a_program_continues() -> None:
    cluster = stalled(OnStall.REPORT)
    assert "no step for" in seen(cluster).waiting
    assert f"worker:1 is in {FRAME}" in seen(cluster).waiting
    cluster.deliver(ev.StallEnded(session=1))
    assert (seen(cluster).state, seen(cluster).waiting) == (JobState.RUNNING, "")


def test_a_stalled_session_restarts_and_that_counts() -> None:
    cluster = stalled(OnStall.RESTART, 1)
    cluster.run()
    report = seen(cluster)
    assert (report.state, report.session, report.waiting) == (JobState.RUNNING, 2, "")
    assert report.restarts
    assert report.restarts.charged == 1
    assert FRAME in report.session_reason


def test_without_restarts_left_the_job_fails() -> None:
    cluster = stalled(OnStall.RESTART)
    cluster.settle()
    assert seen(cluster).state is JobState.FAILED


def test_the_failure_names_the_task_that_the_others_wait_for() -> None:
    cluster = stalled(OnStall.FAIL, 3)
    cluster.settle()
    assert cluster.finished
    failure = cluster.finished.failure
    assert failure
    assert failure.diagnosis
    assert (failure.cause, failure.task, failure.session) == (FailureCause.HANG, task("worker:1"), 1)
    assert (failure.diagnosis.kind, failure.diagnosis.evidence[0].text) == (FailureKind.HANG, FRAME)
    assert cluster.finished.exit_code == ExitCode.PROGRAM_FAILED


def test_the_advice_names_the_command_that_shows_where_the_tasks_waited() -> None:
    cluster = stalled(OnStall.FAIL)
    cluster.settle()
    assert cluster.failure.diagnosis
    assert f"tony stacks {cluster.app.state.job_id}" in cluster.failure.diagnosis.advice


def test_tasks_that_wait_for_one_that_has_ended_need_as_many_steps() -> None:
    cluster = started(replace(workers(2), on_stall=OnStall.FAIL))
    cluster.exit(task("worker:1"), OK)
    cluster.run()
    cluster.deliver(ev.Stalled(session=1, since=0.0, what="step", reason="it has ended", task=task("worker:1")))
    cluster.settle()
    assert cluster.failure.task == task("worker:1")
    assert cluster.failure.diagnosis
    assert "drop_last" in cluster.failure.diagnosis.advice


def test_a_stall_of_another_session_means_nothing() -> None:
    cluster = started(replace(workers(2), on_stall=OnStall.FAIL))
    cluster.deliver(ev.Stalled(session=7, since=0.0, what="output", reason="late"))
    assert (seen(cluster).state, seen(cluster).waiting) == (JobState.RUNNING, "")


def test_a_slow_task_is_reported_until_it_is_fast_again() -> None:
    cluster = started(workers(2))
    cluster.deliver(ev.StragglerFound(session=1, try_=1, task=task("worker:1"), reason="2 s a step"))
    assert (seen(cluster).state, seen(cluster).stragglers) == (JobState.RUNNING, "worker:1 is slow: 2 s a step")
    cluster.deliver(ev.StragglerEnded(session=1, task=task("worker:1")))
    assert seen(cluster).stragglers == ""


def test_a_slow_task_of_another_attempt_means_nothing() -> None:
    cluster = started(workers(2))
    cluster.deliver(ev.StragglerFound(session=1, try_=2, task=task("worker:1"), reason="2 s a step"))
    cluster.deliver(ev.StragglerFound(session=7, try_=1, task=task("worker:1"), reason="2 s a step"))
    cluster.deliver(ev.StragglerEnded(session=7, task=task("worker:0")))
    assert seen(cluster).stragglers == ""
