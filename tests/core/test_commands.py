"""What people ask for: the next session, an end, or something that decides nothing."""

from __future__ import annotations

import pytest

from tests.core.simulated import seen, started
from tests.core.specs import FAILED, OK, task, with_restarts, workers
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.policies.restart_policy import MAX_FREE_RESTARTS
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.job_report import Restarts
from tony.model.states import JobState, TaskState

RESTART = ev.RestartRequested(actor=Actor("ann"))


def running(restarts: int = 0) -> Simulation:
    cluster = started(with_restarts(workers(2), restarts))
    return cluster


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_requested_restart_does_not_count_against_max_restarts(restarts: int) -> None:
    """The next session runs in the same containers, also where the job may not restart by itself."""
    cluster = running(restarts)
    before = set(cluster.containers)
    cluster.deliver(RESTART)
    assert seen(cluster).state is JobState.RESTARTING
    assert seen(cluster).restarting == "restart requested by ann"
    assert seen(cluster).failure is None
    cluster.run()
    now = seen(cluster)
    assert (now.state, now.session) == (JobState.RUNNING, 2)
    assert {each.state for each in now.tasks} == {TaskState.RUNNING}
    assert now.restarts == Restarts(charged=0, most=restarts, free=1)
    assert set(cluster.containers) == before
    for name in ("worker:0", "worker:1"):
        cluster.exit(task(name), OK)
    cluster.settle()
    assert cluster.finished
    assert cluster.finished.exit_code == 0


def test_requested_restarts_are_unlimited() -> None:
    cluster = running()
    for number in range(2 * MAX_FREE_RESTARTS):
        cluster.deliver(RESTART)
        cluster.settle()
        assert seen(cluster).session == number + 2
    assert cluster.app.state.free == 0
    cluster.deliver(ev.KillRequested(actor=Actor("ann")))
    cluster.settle()
    assert seen(cluster).state is JobState.KILLED


def test_where_there_is_nothing_to_restart_nothing_happens() -> None:
    """Twice at once, before the first session, while it stops, and after the end."""
    early = Simulation(workers(1))
    early.deliver(ev.AttemptStarted(attempt=1, wall=1000.0, settings="x", pid=1, host="am"))
    early.deliver(RESTART)
    early.run()
    assert seen(early).session == 1
    cluster = running()
    cluster.stubborn.add(task("worker:0"))
    cluster.deliver(RESTART)
    cluster.deliver(RESTART)
    cluster.run()
    assert seen(cluster).restarts == Restarts(charged=0, most=0, free=1)
    cluster.exit(task("worker:0"), FAILED)
    cluster.settle()
    assert seen(cluster).session == 2
    for name in ("worker:0", "worker:1"):
        cluster.exit(task(name), OK)
    cluster.settle()
    assert cluster.finished
    cluster.deliver(RESTART)
    assert seen(cluster).state is JobState.SUCCEEDED


def test_a_failure_while_stopping_for_a_request_does_not_count() -> None:
    """A sidecar as little as a worker, whatever their exit codes."""
    from dataclasses import replace

    from tony.model.job_spec import Role
    from tony.model.setting_choices import RoleKind

    spec = workers(1, no_retry_on=(1,))
    spec = replace(spec, roles={**spec.roles, "board": Role(kind=RoleKind.SIDECAR)})
    cluster = started(spec)
    cluster.stubborn |= {task("worker:0"), task("board:0")}
    cluster.deliver(RESTART)
    cluster.exit(task("board:0"), FAILED)
    cluster.run()
    cluster.exit(task("worker:0"), FAILED)
    cluster.settle()
    assert (seen(cluster).state, seen(cluster).session) == (JobState.RUNNING, 2)


def test_other_words_are_for_the_record_only() -> None:
    """Who looked at stacks or changed a log level has changed nothing."""
    cluster = running()
    before = cluster.app.compute_digest()
    cluster.deliver(ev.StacksRequested(actor=Actor("ann"), task=TaskId("worker", 0)))
    assert cluster.app.compute_digest() == before


def test_a_remote_program_starts_after_its_request_is_logged() -> None:
    """By an action, and the state is the same."""
    cluster = running()
    before = cluster.app.compute_digest()
    asked = ev.RemoteProgramRequested(actor=Actor("ann"), task=TaskId("worker", 0), number=7, program="ls")
    actions = cluster.app.handle(asked, cluster.now)
    assert [each for each in actions if each.shows] == [act.StartRequestedProgram(number=7)]
    assert cluster.app.compute_digest() == before
