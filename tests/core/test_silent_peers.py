"""Tasks that are silent since a peer of theirs succeeded are pointed out, and only these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.core.specs import FAILED, OK, task, workers
from tests.core.test_report_builder import begun, seen
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core.report_builder import Live
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode, FailurePolicy


def after_success(spec: JobSpec, *ended: str) -> Simulation:
    """Return a job in which some tasks have ended with exit code 0."""
    simulation = begun(spec)
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
        "tony stacks sim",
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
    assert waiting(begun(workers(2)), 600) == ""
    assert waiting(after_success(workers(2), "worker:0", "worker:1"), 600) == ""


def test_tasks_that_do_not_know_each_other_are_no_peers() -> None:
    """With fcfs each takes as long as it takes."""
    spec = replace(workers(2), distributed_mode=DistributedMode.FCFS)
    assert waiting(after_success(spec, "worker:0"), 600) == ""


def test_a_failure_is_none_of_these() -> None:
    """It may not count, and is reported for itself."""
    simulation = begun(replace(workers(2), failure_policy=FailurePolicy.CHIEF_OR_ALL))
    simulation.exit(task("worker:1"), FAILED)
    simulation.run()
    assert waiting(simulation, 600) == ""
