"""Which task is the root cause, where the one that broke is not the one that reports it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.simulated import started
from tests.core.specs import OK, roles, task, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core.actions import ReportFailure
from tony.core.events import FailureResponse
from tony.core.steps.failure_handling import ROOT_CAUSE_WAIT_SECONDS
from tony.model.diagnosis import EvidenceLine, FailureKind
from tony.model.job_spec import Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import FailurePolicy, RoleKind

TIMED_OUT = "gloo-timeout"
MISSING = "jax-missing"
CLOSED = "gloo-peer"


def exit_with(rule: str, ago: float = 0.0, reason: ExitReason = ExitReason.EXITED) -> ExitStatus:
    line = EvidenceLine(stream="err", number=3, text=rule, ago=ago, rule=rule)
    return ExitStatus(reason=reason, code=1, evidence=(line,), duration=100.0, last_output=100.0 - ago)


def missing(*names: str) -> ExitStatus:
    """A program that names the tasks for which it waited."""
    status = exit_with(MISSING)
    return replace(status, evidence=(replace(status.evidence[0], named=tuple(map(task, names))),))


def wait_for_root_cause(simulation: Simulation) -> None:
    start = simulation.now
    while not simulation.app.state.final and simulation.advance():
        simulation.run()
    assert simulation.app.state.final
    assert simulation.now - start >= ROOT_CAUSE_WAIT_SECONDS


def test_the_only_task_for_which_all_others_waited_in_vain_is_the_root_cause() -> None:
    simulation = started(workers(3))
    for name in ("worker:0", "worker:2"):
        simulation.exit(task(name), exit_with(TIMED_OUT))
    simulation.run()
    wait_for_root_cause(simulation)
    simulation.settle()
    found = simulation.failure
    assert found.task == task("worker:1")
    assert found.diagnosis
    assert found.diagnosis.kind is FailureKind.HANG
    assert set(found.consequences) == {task("worker:0"), task("worker:2")}


def test_a_missing_peer_whose_failure_would_be_tolerated_fails_the_session_of_those_who_waited() -> None:
    spec = replace(roles(chief=Role(), worker=Role(instances=1)), failure_policy=FailurePolicy.CHIEF_OR_ALL)
    simulation = started(spec)
    simulation.exit(task("chief:0"), exit_with(TIMED_OUT))
    simulation.run()
    wait_for_root_cause(simulation)
    simulation.settle()
    assert simulation.failure.task == task("worker:0")
    (decided,) = [each for each in simulation.actions if isinstance(each, ReportFailure)]
    assert decided.decision is FailureResponse.FAIL
    assert mentions(decided.reason, "worker:0")
    assert "may still succeed" not in decided.reason


@pytest.mark.parametrize("rules", [(CLOSED,), (TIMED_OUT, CLOSED)])
def test_a_task_that_runs_is_not_blamed_for_a_closed_connection(rules: tuple[str, ...]) -> None:
    simulation = started(workers(len(rules) + 1))
    for index, rule in enumerate(rules):
        simulation.exit(task(f"worker:{index}"), exit_with(rule))
    simulation.run()
    wait_for_root_cause(simulation)
    simulation.settle()
    assert simulation.failure.task != task(f"worker:{len(rules)}")


def test_of_several_tasks_that_run_none_is_blamed() -> None:
    simulation = started(workers(3))
    simulation.exit(task("worker:0"), exit_with(TIMED_OUT))
    simulation.run()
    wait_for_root_cause(simulation)
    simulation.settle()
    assert simulation.failure.task == task("worker:0")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ps", RoleKind.UNTRACKED), ("board", RoleKind.SIDECAR), ("evaluator", RoleKind.TRACKED)],
)
def test_a_task_outside_of_the_gang_is_not_blamed(name: str, kind: RoleKind) -> None:
    simulation = started(roles(worker=Role(), **{name: Role(kind=kind)}))
    simulation.exit(task("worker:0"), exit_with(TIMED_OUT))
    simulation.settle()
    assert simulation.failure.task == task("worker:0")


def test_a_task_that_another_names_is_the_root_cause() -> None:
    """Though several run; but not if one failed by itself."""
    simulation = started(workers(4))
    simulation.exit(task("worker:0"), missing("worker:2"))
    simulation.run()
    wait_for_root_cause(simulation)
    simulation.settle()
    assert simulation.failure.task == task("worker:2")
    simulation = started(workers(4))
    simulation.exit(task("worker:0"), missing("worker:2"))
    simulation.exit(task("worker:1"), exit_with("python-code"))
    simulation.settle()
    assert simulation.failure.task == task("worker:1")


def test_a_named_task_that_failed_later_because_of_others_is_the_root_cause() -> None:
    simulation = started(workers(3))
    for name in ("worker:0", "worker:1", "worker:2"):
        simulation.exit(task(name), missing("worker:2"))
    simulation.settle()
    assert simulation.failure.task == task("worker:2")


def test_a_task_that_failed_by_itself_meanwhile_is_the_root_cause() -> None:
    simulation = started(workers(2))
    simulation.exit(task("worker:0"), exit_with(TIMED_OUT))
    simulation.run()
    simulation.exit(task("worker:1"), exit_with("python-code"))
    simulation.settle()
    assert simulation.failure.task == task("worker:1")


def end_early(rule: str, after: float = 0.0, ago: float = 0.0) -> Simulation:
    """End worker:1 with exit code 0, and some seconds later worker:0 and worker:2 with an error."""
    simulation = started(workers(3))
    simulation.exit(task("worker:1"), OK)
    simulation.run()
    simulation.now += after
    for name in ("worker:0", "worker:2"):
        simulation.exit(task(name), exit_with(rule, ago))
    simulation.settle()
    return simulation


@pytest.mark.parametrize(
    ("rule", "after", "ago"), [(CLOSED, 1.0, 0.0), (CLOSED, 1.0, 3.0), (TIMED_OUT, 0.0, 0.0), (TIMED_OUT, 1801.0, 0.0)]
)
def test_a_task_that_ended_with_0_while_its_peers_computed_is_the_root_cause(
    rule: str, after: float, ago: float
) -> None:
    """Its peers may notice that before it has ended altogether."""
    found = end_early(rule, after, ago).failure
    assert found.task == task("worker:1")
    assert found.exit_code == 0
    assert set(found.consequences) == {task("worker:0"), task("worker:2")}
    assert found.diagnosis
    assert found.diagnosis.kind is FailureKind.USER_CODE
    assert not found.diagnosis.retry
    assert mentions(found.reason, "worker:1", "exit code 0", "worker:0", "worker:2")
    assert mentions(found.diagnosis.advice, "drop_last")


@pytest.mark.parametrize(("rule", "after"), [(CLOSED, 60.0), (TIMED_OUT, 36000.0), ("python-code", 0.0)])
def test_a_task_that_succeeded_long_before_or_without_effect_is_not_blamed(rule: str, after: float) -> None:
    assert end_early(rule, after).failure.task == task("worker:0")


def test_a_task_that_succeeded_is_not_blamed_if_most_others_continue() -> None:
    simulation = started(workers(5))
    simulation.exit(task("worker:1"), OK)
    simulation.exit(task("worker:0"), exit_with(CLOSED))
    simulation.settle()
    assert simulation.failure.task == task("worker:0")


@pytest.mark.parametrize("name", ["chief", "ps", "evaluator"])
def test_a_task_of_another_role_may_end_before_the_others(name: str) -> None:
    simulation = started(roles(**{name: Role(), "worker": Role(instances=2)}))
    simulation.exit(task(f"{name}:0"), OK)
    for index in range(2):
        simulation.exit(task(f"worker:{index}"), exit_with(CLOSED))
    simulation.settle()
    assert simulation.failure.task == task("worker:0")


def test_an_early_end_is_not_repeated_by_a_restart() -> None:
    simulation = started(replace(workers(2), max_restarts=3))
    simulation.exit(task("worker:1"), OK)
    simulation.exit(task("worker:0"), exit_with(CLOSED))
    simulation.settle()
    assert simulation.failure.task == task("worker:1")
    assert simulation.app.state.session == 1
