"""What a JAX program finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.frameworks.jax import Jax
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Resources, Role
from tony.model.setting_choices import AfterCondition

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def test_an_evaluator_has_no_process_number(make_gang: GangMaker) -> None:
    """It would be waited for in every collective."""
    gang = make_gang(JobSpec(framework="jax", roles={"worker": Role(instances=2), "evaluator": Role()}))
    assert gang.environments()[TaskId("evaluator", 0)] == [{}]


def test_the_task_of_a_process_that_an_error_names(make_gang: GangMaker) -> None:
    """Counted as processes are; a role that starts later has numbers of its own."""
    roles = {
        "worker": Role(instances=2, procs_per_task=2),
        "chief": Role(),
        "late": Role(instances=2, after={"worker": AfterCondition.STARTED}),
    }
    gang = make_gang(JobSpec(framework="jax", roles=roles))
    view = gang.view(TaskId("worker", 1))
    found = [gang.framework.find_task(gang.shared, view, number) for number in range(6)]
    assert found == [TaskId("chief", 0), *(TaskId("worker", index) for index in (0, 0, 1, 1)), None]
    assert gang.framework.find_task(gang.shared, gang.view(TaskId("late", 0)), 1) == TaskId("late", 1)


@pytest.mark.parametrize(("gpus", "procs", "refused"), [(3, 2, True), (1, 2, True), (4, 2, False), (0, 2, False)])
def test_gpus_that_cannot_be_shared_evenly(gpus: int, procs: int, refused: bool) -> None:
    """A GPU belongs to one process; a remainder would lie idle unseen, or be fought for."""
    role = Role(procs_per_task=procs, resources=Resources(gpus=gpus))
    problems = Jax().validate(JobSpec(framework="jax", roles={"worker": role}))
    assert [problem.key for problem in problems] == (["roles.worker.gpus"] if refused else [])
