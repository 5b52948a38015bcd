"""`restart = "task"`: only the task that failed starts again, as its next try; and hosts that fail are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.simulated import made, started
from tests.core.specs import COLLISION, FAILED, OK, roles, task, workers
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies.restart_policy import MAX_FREE_RESTARTS
from tony.core.steps import node_exclusion
from tony.core.steps.containers import MAX_LAUNCHES
from tony.core.steps.executor_reports import STOP_CAUSE_WAIT_SECONDS
from tony.model.diagnosis import FailureKind
from tony.model.failure import ClusterKill
from tony.model.job_spec import JobSpec, Role, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import DistributedMode, RestartScope, RoleKind
from tony.model.states import JobState

OUTSIDE = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
ALONE = Role(instances=3, restart=RestartScope.TASK)
TOGETHER = Role(instances=3)


def job(role: Role = ALONE, **more: Any) -> JobSpec:
    """Three workers that start again each alone."""
    return replace(roles(worker=role), **{"max_restarts": 2, "backoff": 1.0, **more})


def stands(simulation: Simulation) -> list[tuple[str, int, int, str | None]]:
    """State, session, try and container of each worker."""
    return [(t.state.value, t.session, t.try_, t.container) for t in simulation.app.state.roles["worker"].tasks]


def test_only_that_task_starts_again() -> None:
    """In the same session and container, under the same cluster spec; the other tasks are not notified."""
    simulation = started(job())
    simulation.actions.clear()
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    assert stands(simulation) == [("running", 1, 1, "c-1"), ("running", 1, 2, "c-2"), ("running", 1, 1, "c-3")]
    assert [(s.task, s.session, s.try_, s.version) for s in made(simulation, act.Start)] == [
        (task("worker:1"), 1, 2, 1)
    ]
    assert made(simulation, act.Stop) + made(simulation, act.Renew) + made(simulation, act.Publish) == []
    (verdict,) = made(simulation, act.ReportFailure)
    assert (verdict.decision, verdict.reason) == ("retry", "restart 1 of 2")
    for index in range(3):
        simulation.exit(task(f"worker:{index}"), OK)
    simulation.settle()
    assert simulation.finished
    assert simulation.finished.exit_code == 0
    assert simulation.app.state.session == 1


def test_the_second_time_it_waits() -> None:
    simulation = started(job())
    for _ in range(2):
        simulation.exit(task("worker:1"), FAILED)
        simulation.run()
    assert stands(simulation)[1] == ("registered", 1, 2, "c-2")
    assert [str(each) for each in simulation.app.state.timers.all if each.kind is DeadlineKind.TASK_RESTART] == [
        "task-restart:worker:1"
    ]
    simulation.advance()
    simulation.run()
    assert 1.0 <= simulation.now <= 1.25
    assert stands(simulation)[1] == ("running", 1, 3, "c-2")


def test_the_budget_is_the_jobs() -> None:
    """When it is used up the failure ends the job, and says so."""
    simulation = started(job(max_restarts=1))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    simulation.exit(task("worker:2"), FAILED)
    simulation.settle()
    assert simulation.failure.no_restart_reason == "already restarted once (max_restarts = 1)"


def test_no_restart_is_considered_without_a_budget() -> None:
    simulation = started(job(max_restarts=0))
    simulation.exit(task("worker:1"), FAILED)
    simulation.settle()
    assert simulation.failure.no_restart_reason == ""


def test_a_task_unknown_to_its_peers_may_move() -> None:
    """A lost container is replaced without a new session; where its peers know the address, a new session begins."""
    for framework, expected in (("none", (1, "running", 2)), ("tensorflow", (2, "running", 1))):
        simulation = started(job(framework=framework))
        simulation.lose("c-2", "its node burned", silent=True, blameless=True)
        simulation.run()
        worker = simulation.app.state.tasks[task("worker:1")]
        assert (simulation.app.state.session, worker.state.value, worker.try_) == expected
        assert worker.container == "c-4"
        assert (simulation.app.state.restarts_charged, simulation.app.state.restarts_free) == (0, 1)


def test_a_task_whose_address_is_in_a_placeholder_does_not_move() -> None:
    """The first of its role, whatever the framework: its peers were started with that address."""
    for lost, session in (("worker:0", 2), ("worker:1", 1)):
        simulation = started(job(command="run {address.worker}"))
        container = simulation.app.state.tasks[task(lost)].container
        assert container
        simulation.lose(container, "its node burned", silent=True, blameless=True)
        simulation.run()
        assert simulation.app.state.session == session


def test_a_sidecar_moves_although_it_was_published() -> None:
    """No task needs its address; and it starts again although its failure would be tolerated."""
    board = Role(kind=RoleKind.SIDECAR, restart=RestartScope.TASK)
    simulation = started(replace(roles(worker=Role(), board=board), framework="tensorflow", max_restarts=1))
    simulation.lose("c-2", "gone", silent=True)
    simulation.run()
    board_task = simulation.app.state.tasks[task("board:0")]
    assert (board_task.state.value, board_task.try_, board_task.container) == ("running", 2, "c-3")
    simulation.exit(task("board:0"), FAILED)
    simulation.run()
    assert board_task.state.value == "failed"
    assert simulation.app.state.job is JobState.RUNNING


def test_a_silent_one_starts_again_when_it_is_dead() -> None:
    """Not before its container has ended: two of one task never run."""
    simulation = started(job(max_restarts=0))
    simulation.deaf = True
    simulation.freeze("c-2")
    simulation.fall_silent("c-2")
    simulation.run()
    assert stands(simulation)[1][0] == "stopping"
    simulation.hear()
    simulation.run()
    assert stands(simulation)[1] == ("running", 1, 2, "c-4")


def test_a_time_out_ends_one_try() -> None:
    """The program is stopped, and the next try has the whole time again."""
    simulation = started(job(timeouts=Timeouts(execution=10.0)))
    simulation.now = 5.0
    simulation.exit(task("worker:0"), OK)
    simulation.exit(task("worker:2"), OK)
    simulation.run()
    simulation.advance()
    simulation.run()
    assert stands(simulation)[1] == ("running", 1, 2, "c-2")
    assert simulation.app.state.timers.all[Deadline.parse("execution:worker:1")] == 20.0


def test_taken_ports_are_left_behind() -> None:
    """The next try gets another container, where other ports are reserved; if the peers know them, all start again."""
    for framework, expected in (("none", (1, "c-4")), ("tensorflow", (2, "c-2"))):
        simulation = started(job(framework=framework))
        simulation.exit(task("worker:1"), COLLISION)
        simulation.run()
        worker = simulation.app.state.tasks[task("worker:1")]
        assert (simulation.app.state.session, worker.container, worker.state.value) == (*expected, "running")


def test_a_stop_that_was_lost_does_not_reach_the_next_try() -> None:
    """Stop and start of one try are lost; the next try, on a new connection, runs."""
    simulation = started(job(timeouts=Timeouts(execution=10.0)))
    simulation.stubborn.add(task("worker:1"))
    simulation.now = 10.0
    simulation.deliver(ev.DeadlinePassed(deadline=Deadline.parse("execution:worker:1")))
    simulation.stubborn.clear()
    simulation.exit(task("worker:1"), FAILED)  # by itself, before the stop takes effect
    simulation.run()
    assert stands(simulation)[1] == ("running", 1, 2, "c-2")
    assert [p.try_ for p in simulation.running() if p.task == task("worker:1")] == [2]


@pytest.mark.parametrize("mode", DistributedMode)
def test_a_failing_launch_is_not_repeated_for_ever(mode: DistributedMode) -> None:
    simulation = Simulation(job(replace(ALONE, instances=1), max_restarts=0, distributed_mode=mode))
    simulation.begin()
    refused = 0
    for _ in range(1000):
        waiting = [c for c in simulation.containers if c not in simulation.executors]
        new = [c for c in simulation.containers if c in simulation.executors]
        if new:
            simulation.pending = [p for p in simulation.pending if p.source is None]
            simulation.lose(new[0], "disk full", silent=True)
            refused += 1
        elif simulation.pending or waiting:
            simulation.run(until=lambda: bool(simulation.executors))
        elif simulation.finished or not simulation.advance():
            break
    assert simulation.failure.cause == "launch"
    assert refused == 3 * MAX_LAUNCHES


def test_the_bad_luck_of_one_task_ends_as_well() -> None:
    """After ten in a row the job is told that something is wrong."""
    simulation = started(job(max_restarts=0, backoff=0.0))
    for _ in range(MAX_FREE_RESTARTS + 1):
        container = simulation.app.state.tasks[task("worker:1")].container
        assert container
        simulation.lose(container, "preempted", silent=True, blameless=True)
        simulation.run()
    simulation.settle()
    assert "10 restarts in a row" in simulation.failure.no_restart_reason


# --- the gang ---------------------------------------------------------------------------------------------------------


def test_all_are_stopped_at_one_moment() -> None:
    """One failure: every other program is asked to stop with that very event, with the grace of a restart."""
    spec = workers(4, max_restarts=1, stop_grace=60.0, restart_grace=2.0)
    simulation = started(spec)
    simulation.stubborn.update(task(f"worker:{n}") for n in range(4))
    simulation.exit(task("worker:2"), FAILED)
    actions = simulation.deliver(simulation.pending.pop(0).event)
    stops = [a for a in actions if isinstance(a, act.Stop)]
    assert [(str(s.task), s.grace, s.try_) for s in stops] == [(f"worker:{n}", 2.0, 1) for n in (0, 1, 3)]


def test_preemption_does_not_count_in_either_order_of_reports() -> None:
    """The executor reports that it was stopped, the scheduler reports later why: classified only then."""
    for report_first in (True, False):
        simulation = started(workers(2))
        exited = ev.Exited(task=task("worker:0"), session=1, try_=1, status=OUTSIDE, at=1.0)
        ended = ev.ContainerEnded(container="c-1", cause="preempted", blameless=True, kill=ClusterKill.PREEMPTED)
        simulation.executors.pop("c-1")
        simulation.containers.pop("c-1")
        simulation.now = 1.0
        for event in (exited, ended) if report_first else (ended, exited):
            assert made(simulation, act.ReportFailure) == []
            simulation.deliver(event)
        (verdict,) = made(simulation, act.ReportFailure)
        assert (verdict.decision, verdict.failure.cause, verdict.failure.blameless) == ("restart", "lost", True)
        assert verdict.failure.diagnosis
        assert verdict.failure.diagnosis.kind is FailureKind.PREEMPTION
        assert "not caused by the job" in verdict.reason


def test_failures_of_peers_during_a_preemption_do_not_count() -> None:
    """The container of worker:0 is preempted; before that is known worker:1 fails because of it, with a code of its
    own."""
    for report_first in (True, False):
        simulation = started(workers(2))
        exited = ev.Exited(task=task("worker:0"), session=1, try_=1, status=OUTSIDE, at=1.0)
        ended = ev.ContainerEnded(container="c-1", cause="preempted", blameless=True, kill=ClusterKill.PREEMPTED)
        simulation.executors.pop("c-1")
        simulation.containers.pop("c-1")
        simulation.now = 1.0
        simulation.deliver(exited if report_first else ended)
        simulation.exit(task("worker:1"), FAILED)
        simulation.run()
        assert made(simulation, act.ReportFailure) == []
        simulation.deliver(ended if report_first else exited)
        (verdict,) = made(simulation, act.ReportFailure)
        assert (verdict.decision, verdict.failure.task, verdict.failure.blameless) == (
            "restart",
            task("worker:0"),
            True,
        )
        assert simulation.app.state.restarts == []


def test_the_wait_for_the_scheduler_is_limited() -> None:
    """Without a report about the container the failure is classified as it is, and counts."""
    simulation = started(workers(2))
    simulation.exit(task("worker:0"), OUTSIDE)
    simulation.run()
    assert made(simulation, act.ReportFailure) == []
    simulation.advance()
    assert simulation.now == STOP_CAUSE_WAIT_SECONDS
    simulation.settle()
    assert simulation.finished
    assert (simulation.finished.exit_code, simulation.failure.cause) == (3, "lost")


def test_a_late_root_cause_may_rule_the_restart_out() -> None:
    """worker:1 failed first, with an exit code that is never retried; worker:0 was reported first."""
    simulation = started(workers(2, max_restarts=3, no_retry_on=(2,)))
    simulation.stubborn.add(task("worker:1"))
    simulation.now = 5.0
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.job is JobState.RESTARTING
    fatal = ExitStatus(reason=ExitReason.EXITED, code=2)
    simulation.executors["c-2"].program = None
    simulation.deliver(ev.Exited(task=task("worker:1"), session=1, try_=1, status=fatal, at=4.0))
    simulation.settle()
    assert (simulation.failure.task, simulation.failure.exit_code) == (task("worker:1"), 2)
    assert "exit code 2 is not retried" in simulation.failure.no_restart_reason


# --- hosts ------------------------------------------------------------------------------------------------------------


def on_a_cluster(spec: JobSpec) -> Simulation:
    """All programs run, where the scheduler can choose among hosts."""
    simulation = Simulation(spec)
    simulation.deliver(ev.AttemptStarted(attempt=1, wall=1000.0, settings="x", chooses=True))
    simulation.run()
    return simulation


def test_a_host_on_which_tasks_failed_twice_is_left_out_for_an_hour() -> None:
    """Each failure counts once; then it is as good as the others again."""
    simulation = on_a_cluster(job(max_restarts=9, backoff=0.0))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    assert made(simulation, act.Exclude) == []
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert made(simulation, act.Exclude) == [act.Exclude(host="h")]
    simulation.exit(task("worker:2"), FAILED)
    simulation.run()
    assert len(made(simulation, act.Exclude)) == 1
    simulation.advance()
    assert simulation.now == node_exclusion.EXCLUSION_SECONDS
    assert made(simulation, act.Include) == [act.Include(host="h")]


def test_a_host_on_which_executors_cannot_start_twice_is_left_out() -> None:
    """No program has run there; a GPU that is broken is an example. Preempted ones do not count."""
    simulation = Simulation(job(replace(ALONE, instances=1)))
    simulation.deliver(ev.AttemptStarted(attempt=1, wall=1000.0, settings="x", chooses=True))
    for cause, blameless in (("preempted", True), ("no such device", False), ("no such device", False)):
        simulation.run(until=lambda: bool(simulation.executors))
        assert made(simulation, act.Exclude) == []
        simulation.pending.clear()
        simulation.lose(next(iter(simulation.executors)), cause, blameless=blameless)
    simulation.run()
    assert made(simulation, act.Exclude) == [act.Exclude(host="h")]
    assert simulation.app.state.living == 1


def test_hosts_are_not_excluded_for_other_causes() -> None:
    """Nor for failures an hour apart, nor where there is nothing to choose."""
    simulation = on_a_cluster(job(max_restarts=9, backoff=0.0))
    for _ in range(3):
        container = simulation.app.state.tasks[task("worker:1")].container
        simulation.lose(str(container), "preempted", silent=True, blameless=True)
        simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    simulation.now = node_exclusion.WINDOW_SECONDS + 1
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert made(simulation, act.Exclude) == []
    local = started(job(max_restarts=9, backoff=0.0))
    for index in range(3):
        local.exit(task(f"worker:{index}"), FAILED)
        local.run()
    assert made(local, act.Exclude) == []


def on_two_hosts(spec: JobSpec) -> Simulation:
    """As `on_a_cluster`: the first two tasks on one host, the third on another."""
    simulation = Simulation(spec)
    simulation.deliver(ev.AttemptStarted(attempt=1, wall=1000.0, settings="x", chooses=True))
    simulation.run()
    for container in simulation.app.state.containers.values():
        container.host = "other" if container.task == task("worker:2") else "bad"
    for each in simulation.app.state.tasks.values():
        each.host = simulation.app.state.containers[str(each.container)].host
    return simulation


def places(simulation: Simulation) -> list[str | None]:
    """Where each task is."""
    return [each.container for each in simulation.app.state.tasks.values()]


def test_no_session_begins_on_a_host_that_is_left_out() -> None:
    """All tasks on it move, whichever failed there; those on other hosts keep their containers."""
    simulation = on_two_hosts(job(TOGETHER, max_restarts=9, backoff=1.0))
    before = places(simulation)
    simulation.deliver(ev.Excluded(hosts=("bad",)))
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    assert simulation.app.state.session == 2
    assert [old == new for old, new in zip(before, places(simulation), strict=True)] == [False, False, True]
    assert simulation.app.state.living == 3


def test_a_session_that_has_just_opened_leaves_it_too() -> None:
    """The scheduler's word comes a moment after the session; executors may have registered already."""
    simulation = on_two_hosts(job(TOGETHER, max_restarts=9, backoff=0.0))
    before = places(simulation)
    simulation.exit(task("worker:0"), FAILED)
    simulation.run(lambda: simulation.app.state.session == 2)
    simulation.deliver(ev.Excluded(hosts=("bad",)))
    simulation.run()
    assert [old == new for old, new in zip(before, places(simulation), strict=True)] == [False, False, True]
    assert simulation.app.state.living == 3


def test_running_programs_stay_where_they_are() -> None:
    """A failure elsewhere does not move them; and when the host is allowed again, all stay."""
    simulation = on_two_hosts(job(TOGETHER, max_restarts=9, backoff=0.0))
    before = places(simulation)
    simulation.deliver(ev.Excluded(hosts=("bad",)))
    simulation.run()
    simulation.deliver(ev.Excluded(hosts=()))
    simulation.exit(task("worker:2"), FAILED)
    simulation.run()
    assert (simulation.app.state.session, places(simulation)) == (2, before)


@pytest.mark.parametrize("framework", ["none", "tensorflow"])
def test_a_lone_task_leaves_it(framework: str) -> None:
    """Alone where no other task has its address; else with all the others."""
    simulation = on_two_hosts(job(framework=framework))
    before = places(simulation)
    simulation.deliver(ev.Excluded(hosts=("bad",)))
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    moved = [old != new for old, new in zip(before, places(simulation), strict=True)]
    state = simulation.app.state
    expected = ([True, False, False], 1) if framework == "none" else ([True, True, False], 2)
    assert (moved, state.session, state.living) == (*expected, 3)
