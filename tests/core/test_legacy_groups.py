"""Points of LinkedIn TonY's own unit tests that concern what is decided: groups with a limit, and counts of tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.specs import OK, roles, task
from tests.core.test_report_builder import begun, seen
from tests.facts import mentions
from tony.core.deadline import Deadline
from tony.model.job_spec import JobSpec, Role, TimeoutAfter
from tony.model.setting_choices import AfterCondition, RoleKind
from tony.model.states import TaskState


def limited(name: str, **more: AfterCondition) -> JobSpec:
    """A role of this name may continue for a minute after the workers; one for a role that it starts after."""
    late = Role(timeout_after=TimeoutAfter(group="trainers", limit=60.0), after=more)
    return replace(roles(worker=Role(instances=2), **{name: late}), groups={"trainers": ("worker",)})


@pytest.mark.parametrize("name", ["evaluator", "evalUator2"])
def test_an_expired_limit_names_type_and_group(name: str) -> None:
    """Names are compared without case."""
    simulation = begun(limited(name))
    simulation.exit(task("worker:0"), OK)
    simulation.run()
    assert Deadline.parse(f"group:{name}") not in simulation.app.state.timers
    simulation.exit(task("worker:1"), OK)
    simulation.run()
    assert simulation.running()
    assert simulation.app.state.timers.all[Deadline.parse(f"group:{name}")] == 60.0
    simulation.settle()
    assert mentions(
        simulation.failure.reason,
        "1 m 00 s",
        f"{name}:0",
        "running",
        "group trainers",
        f"roles.{name}.timeout_after",
    )


def test_a_limit_counts_for_tasks_without_a_container() -> None:
    """LinkedIn TonY started the limit when all had a container; tony starts it for each task, so that no task waits
    for ever."""
    simulation = begun(limited("report", worker=AfterCondition.SUCCEEDED))
    simulation.capacity = 0
    for who in ("worker:0", "worker:1"):
        simulation.exit(task(who), OK)
    simulation.settle()
    assert simulation.failure.cause == "group-timeout"


def test_counts() -> None:
    """A server and one of two workers are done: 3 tasks, 2 of them done, 2 tracked, 1 of those done; it continues."""
    spec = roles(ps=Role(kind=RoleKind.UNTRACKED), worker=Role(instances=2))
    simulation = begun(spec)
    for who in ("ps:0", "worker:0"):
        simulation.exit(task(who), OK)
    simulation.run()
    report = seen(simulation)
    done = [each.role for each in report.tasks if each.state is TaskState.SUCCEEDED]
    assert (len(report.tasks), len(done), spec.tracked_count, done.count("worker")) == (3, 2, 2, 1)
    assert simulation.finished is None
