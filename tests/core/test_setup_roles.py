"""Roles that run before all others, and what their programs pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.core.simulated import started
from tests.core.specs import FAILED, OK, roles, task, with_restarts
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import actions as act
from tony.core import events as ev
from tony.core.sentences import describe_note
from tony.model.job_spec import JobSpec, Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import AfterCondition, DistributedMode, FailurePolicy, RoleKind

SETUP = RoleKind.SETUP
MARKS = {"RESULT": "result: ", "MORE": "more: "}


def spec(**job: Any) -> JobSpec:
    """Two tasks prepare, then a chief, two workers and a sidecar."""
    shape = roles(
        worker=Role(instances=2),
        board=Role(kind=RoleKind.SIDECAR),
        prepare=Role(instances=2, kind=SETUP, exports={"RESULT": "result: "}),
        chief=Role(),
    )
    return replace(shape, **job)


def running(simulation: Simulation) -> set[str]:
    simulation.run()
    return {str(program.task) for program in simulation.running()}


def exits(simulation: Simulation, who: str, **exports: str | None) -> None:
    """A program succeeds and hands this on."""
    known = simulation.app.state.tasks[task(who)]
    simulation.exit(task(who), OK)
    (told,) = [p for p in simulation.pending if isinstance(p.event, ev.Exited)]
    assert isinstance(told.event, ev.Exited)
    told.event = replace(told.event, exports=exports)
    simulation.run()
    assert not known.living


def starts(simulation: Simulation) -> dict[str, Mapping[str, str]]:
    """The newest start of each task: its variables."""
    return {str(a.task): a.variables for a in simulation.actions if isinstance(a, act.Start)}


def test_all_roles_wait_for_every_setup_role() -> None:
    """Without a setting; sidecars wait as well, and TASK_NUM does not count setup tasks."""
    shape = spec()
    assert ("prepare",) == shape.setup_roles
    assert 3 == shape.tracked_count
    simulation = started(shape)
    assert running(simulation) == {"prepare:0", "prepare:1"}
    simulation.exit(task("prepare:1"), OK)
    assert running(simulation) == {"prepare:0"}
    simulation.exit(task("prepare:0"), OK)
    assert running(simulation) == {"chief:0", "worker:0", "worker:1", "board:0"}


def test_setup_needs_no_gang() -> None:
    """A task starts as soon as it has registered, whatever becomes of its brothers; without a cluster spec."""
    simulation = Simulation(spec(), capacity=1)
    simulation.begin()
    assert running(simulation) == {"prepare:0"}
    assert [a.version for a in simulation.actions if isinstance(a, act.Start)] == [0]
    assert not [a for a in simulation.actions if isinstance(a, act.Publish)]


@pytest.mark.parametrize("mode", DistributedMode)
def test_it_is_in_no_cluster_spec(mode: DistributedMode) -> None:
    """The others are, once it has succeeded."""
    simulation = started(spec(distributed_mode=mode))
    for number in range(2):
        simulation.exit(task(f"prepare:{number}"), OK)
    simulation.run()
    published = [set(a.spec.roles) for a in simulation.actions if isinstance(a, act.Publish)]
    assert published == ([{"worker", "chief", "board"}] if mode is DistributedMode.GANG else [])


@pytest.mark.parametrize("policy", FailurePolicy)
def test_its_failure_fails_the_job_under_every_policy(policy: FailurePolicy) -> None:
    simulation = started(spec(failure_policy=policy))
    simulation.exit(task("prepare:1"), FAILED)
    simulation.settle()
    assert simulation.finished
    assert (task("prepare:1"), 1) == (simulation.failure.task, simulation.finished.exit_code)


def test_a_restart_runs_it_again_until_it_has_succeeded() -> None:
    """All of its tasks, as of any role; after that never again, whichever other task fails."""
    simulation = started(with_restarts(spec(), 2))
    simulation.exit(task("prepare:0"), OK)
    simulation.exit(task("prepare:1"), FAILED)
    assert running(simulation) == {"prepare:0", "prepare:1"}
    for number in range(2):
        simulation.exit(task(f"prepare:{number}"), OK)
    simulation.run()
    simulation.exit(task("worker:1"), FAILED)
    while simulation.app.state.session < 3:
        simulation.run()
        assert simulation.app.state.session == 3 or simulation.advance()
    assert running(simulation) == {"chief:0", "worker:0", "worker:1", "board:0"}
    assert simulation.app.state.roles["prepare"].finished


def test_it_keeps_no_container_for_a_restart_that_does_not_concern_it() -> None:
    """What it held is given back as soon as all of it has succeeded."""
    simulation = started(with_restarts(spec(), 3))
    simulation.exit(task("prepare:0"), OK)
    simulation.run()
    assert "prepare" in simulation.containers.values()
    simulation.exit(task("prepare:1"), OK)
    simulation.run()
    assert "prepare" not in simulation.containers.values()


def test_setup_roles_may_wait_for_each_other() -> None:
    """By their own `after`; the others wait for all of them."""
    both = roles(
        worker=Role(),
        fetch=Role(kind=SETUP),
        unpack=Role(kind=SETUP, after={"fetch": AfterCondition.SUCCEEDED}),
    )
    simulation = started(both)
    for who in ("fetch:0", "unpack:0", "worker:0"):
        assert running(simulation) == {who}
        simulation.exit(task(who), OK)
    simulation.settle()
    assert simulation.finished
    assert simulation.finished.failure is None


def test_a_role_called_worker_that_prepares_is_no_chief() -> None:
    """It takes no part in the computation, whatever its name; TensorBoard's port is for those who do."""
    shape = roles(worker=Role(kind=SETUP), tensorboard=Role(kind=SETUP), a=Role(instances=2))
    assert shape.chief is None
    assert shape.tensorboard_task is None
    assert "a:0" == str(roles(worker=Role(kind=SETUP), a=Role()).tensorboard_task)


def test_a_job_without_roles_is_its_own_chief() -> None:
    """So its one program has TB_PORT."""
    alone = JobSpec(command="x")
    assert ("main:0", "main:0") == (str(alone.chief), str(alone.tensorboard_task))


def test_exports_reach_all_tasks_that_start_later() -> None:
    """Of other roles, in this session and in later ones; of several tasks the first one's value counts."""
    shape = with_restarts(spec(), 1)
    simulation = started(shape)
    exits(simulation, "prepare:0", RESULT="new")
    exits(simulation, "prepare:1", RESULT="old")
    simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    while simulation.app.state.session < 2:
        simulation.run()
        assert simulation.app.state.session == 2 or simulation.advance()
    simulation.run()
    late = [a for a in simulation.actions if isinstance(a, act.Start) and a.session == 2]
    assert {str(a.task): a.variables["RESULT"] for a in late} == dict.fromkeys(
        ("chief:0", "worker:0", "worker:1", "board:0"), "new"
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_order_of_reports_makes_no_difference(order: tuple[int, int]) -> None:
    """The first task that has something to pass on, whenever that is heard of."""
    simulation = started(spec())
    for number in order:
        exits(simulation, f"prepare:{number}", RESULT=f"of {number}")
    simulation.run()
    assert starts(simulation)["chief:0"] == {"RESULT": "of 0"}


def test_a_later_session_may_hand_on_something_else() -> None:
    shape = with_restarts(roles(worker=Role(instances=2, exports=MARKS), ps=Role(kind=RoleKind.UNTRACKED)), 2)
    simulation = started(shape)
    for session in (2, 3):
        exits(simulation, "worker:0", RESULT=f"before {session}")
        simulation.exit(task("worker:1"), FAILED)
        while simulation.app.state.session < session:
            simulation.run()
            assert simulation.app.state.session == session or simulation.advance()
        simulation.run()
        assert starts(simulation)["ps:0"] == {"RESULT": f"before {session}"}


def test_a_role_does_not_get_its_own_exports() -> None:
    """Its own tasks of a later session start as those of the first did."""
    shape = with_restarts(roles(worker=Role(instances=2, exports=MARKS), ps=Role(kind=RoleKind.UNTRACKED)), 1)
    simulation = started(shape)
    exits(simulation, "worker:0", RESULT="7", MORE=None)
    simulation.exit(task("worker:1"), FAILED)
    while simulation.app.state.session < 2:
        simulation.run()
        assert simulation.app.state.session == 2 or simulation.advance()
    simulation.run()
    assert starts(simulation) == {"worker:0": {}, "worker:1": {}, "ps:0": {"RESULT": "7"}}


@pytest.mark.parametrize("status", [FAILED, ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")])
def test_a_program_that_did_not_succeed_hands_nothing_on(status: ExitStatus) -> None:
    """Who knows what its line is worth."""
    shape = with_restarts(spec(), 1)
    simulation = started(shape)
    simulation.exit(task("prepare:0"), status)  # the simulation reports a value of its own with it
    simulation.run()
    assert simulation.app.state.exports == {}


def test_a_missing_export_is_only_reported() -> None:
    """The variable keeps its value, or is not set; the task has a note."""
    simulation = started(spec())
    exits(simulation, "prepare:0", RESULT="7")
    exits(simulation, "prepare:1", RESULT=None)
    noted = simulation.app.state.tasks[task("prepare:1")].note
    assert mentions(describe_note(noted), "result:", "code 0", "RESULT")
    simulation.run()
    assert starts(simulation)["chief:0"] == {"RESULT": "7"}


def test_an_empty_rest_of_a_line_is_a_value() -> None:
    simulation = started(spec())
    exits(simulation, "prepare:1", RESULT="7")
    exits(simulation, "prepare:0", RESULT="")
    simulation.run()
    assert starts(simulation)["chief:0"] == {"RESULT": ""}


def test_only_requested_exports_are_accepted() -> None:
    simulation = started(spec())
    exits(simulation, "prepare:1", RESULT="7", PATH="/evil")
    exits(simulation, "prepare:0", RESULT="8", LD_PRELOAD="/evil.so")
    simulation.run()
    assert starts(simulation)["chief:0"] == {"RESULT": "8"}


def test_a_repeated_start_has_the_exports() -> None:
    """The order that is sent again has the variables, too."""
    simulation = started(spec())
    for number in range(2):
        exits(simulation, f"prepare:{number}", RESULT="7")
    simulation.run()
    chief = simulation.app.state.tasks[task("chief:0")]
    assert chief.container
    assert chief.incarnation
    (again,) = simulation.app.find_reattach_actions(chief.container, chief.incarnation)
    assert isinstance(again, act.Start)
    assert again.variables == {"RESULT": "7"}


def test_exports_are_part_of_the_state() -> None:
    """A replay that lost them would start other tasks differently."""
    digests = set()
    for value in ("7", "8", None):
        simulation = started(spec())
        exits(simulation, "prepare:0", RESULT=value)
        digests.add(simulation.app.compute_digest())
    assert 3 == len(digests)
