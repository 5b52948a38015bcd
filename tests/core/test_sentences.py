"""A report says which tasks the job waits for after a success, and which are silent since a peer succeeded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.core.sample_states import standing
from tests.core.simulated import seen, started
from tests.core.specs import FAILED, OK, roles, task, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core.report_builder import Live
from tony.core.sentences import describe_unfinished
from tony.core.state import State
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition, DistributedMode, FailurePolicy, RoleKind
from tony.model.states import JobState


def after_success(spec: JobSpec, *ended: str) -> Simulation:
    """Return a job in which some tasks have ended with exit code 0."""
    simulation = started(spec)
    for name in ended:
        simulation.exit(task(name), OK)
    simulation.run()
    return simulation


def waiting(simulation: Simulation, seconds: float, **ages: float | None) -> str:
    """Return the report's sentence so long after the last event; `ages`: seconds since `worker<N>` printed a line."""
    live: Mapping[TaskId, Live] = {
        task(f"worker:{name.removeprefix('worker')}"): Live(last_output_age=age) for name, age in ages.items()
    }
    return seen(simulation, simulation.now + seconds, live).waiting


def test_a_rank_that_ended_while_its_peers_are_silent_is_pointed_out() -> None:
    """With the command that shows what the others are doing; one that never printed is silent, too."""
    simulation = after_success(workers(3), "worker:2")
    assert mentions(
        waiting(simulation, 125, worker0=130.0, worker1=None),
        "code 0",
        "2 m 05 s",
        "worker:2",
        "worker:0",
        "worker:1",
    )


@pytest.mark.parametrize(("seconds", "age"), [(59.0, 200.0), (600.0, 5.0), (600.0, 599.0)])
def test_active_peers_are_not_reported(seconds: float, age: float) -> None:
    """Soon after the exit, or if one of them has printed something since."""
    simulation = after_success(workers(3), "worker:2")
    assert waiting(simulation, seconds, worker0=700.0, worker1=age) == ""


def test_a_step_that_was_reported_since_counts_as_output() -> None:
    simulation = after_success(workers(2), "worker:1")
    for age, is_silent in ((5.0, False), (700.0, True)):
        live = {task("worker:0"): Live(last_output_age=None, last_step_age=age)}
        assert bool(seen(simulation, simulation.now + 600.0, live).waiting) is is_silent


def test_many_are_named_in_few_words() -> None:
    simulation = after_success(workers(7), "worker:0")
    said = waiting(simulation, 60)
    assert mentions(said, "3 more", "worker:1", "worker:2", "worker:3")


def test_nothing_is_reported_without_a_success_or_running_peers() -> None:
    assert waiting(started(workers(2)), 600) == ""
    assert waiting(after_success(workers(2), "worker:0", "worker:1"), 600) == ""


def test_tasks_that_do_not_know_each_other_are_no_peers() -> None:
    """With fcfs each takes as long as it takes."""
    spec = replace(workers(2), distributed_mode=DistributedMode.FCFS)
    assert waiting(after_success(spec, "worker:0"), 600) == ""


def test_a_failure_is_none_of_these() -> None:
    """It may not count, and is reported for itself."""
    simulation = started(replace(workers(2), failure_policy=FailurePolicy.CHIEF_OR_ALL))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    assert waiting(simulation, 600) == ""


def running(spec: JobSpec, **tasks: str) -> State:
    """A running job whose tasks are in these states."""
    state = standing(spec, **tasks)
    state.job = JobState.RUNNING
    return state


PS = {"chief": Role(), "worker": Role(instances=2), "ps": Role(kind=RoleKind.UNTRACKED)}


def test_a_chief_that_succeeded_leaves_its_workers() -> None:
    """The untracked ps is not waited for."""
    state = running(roles(**PS), chief="succeeded", worker="running running", ps="running")
    assert describe_unfinished(state) == "chief:0 has succeeded; still waiting for worker:0-1"


def test_nothing_to_say_before_a_success() -> None:
    """Nor when all have ended, nor once the job is stopping."""
    assert describe_unfinished(running(roles(**PS), chief="running", worker="running failed", ps="succeeded")) == ""
    assert describe_unfinished(running(workers(2), worker="succeeded succeeded")) == ""
    state = running(workers(2), worker="succeeded running")
    state.job = JobState.STOPPING
    assert describe_unfinished(state) == ""


def test_tasks_of_one_role_and_many_of_them() -> None:
    """Ranges, and a number for what is too much."""
    state = running(workers(9), worker="succeeded running running succeeded running failed running running running")
    assert (
        describe_unfinished(state)
        == "worker:0, worker:3 have succeeded; still waiting for worker:1-2, worker:4, worker:6-8"
    )
    state = running(workers(8), worker="succeeded running succeeded running succeeded running succeeded running")
    assert mentions(
        describe_unfinished(state),
        "1 more",
        "worker:0",
        "worker:2",
        "worker:4",
        "succeeded",
        "worker:1",
        "worker:3",
        "worker:5",
    )


def test_a_stage_that_is_over_is_no_news() -> None:
    after = {"prep": AfterCondition.SUCCEEDED}
    spec = roles(prep=Role(), worker=Role(instances=2, after=after), check=Role())
    assert describe_unfinished(running(spec, prep="succeeded", worker="running running", check="running")) == ""
    state = running(spec, prep="succeeded", worker="running running", check="succeeded")
    assert describe_unfinished(state) == "check:0 has succeeded; still waiting for worker:0-1"
