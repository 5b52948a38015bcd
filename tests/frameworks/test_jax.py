"""What a JAX program finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.frameworks.jax import Jax
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Resources, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def test_an_evaluator_has_no_process_number(make_gang: GangMaker) -> None:
    """It would be waited for in every collective."""
    gang = make_gang(JobSpec(framework="jax", roles={"worker": Role(instances=2), "evaluator": Role()}))
    assert gang.environments()[TaskId("evaluator", 0)] == [{}]


@pytest.mark.parametrize(("gpus", "procs", "refused"), [(3, 2, True), (1, 2, True), (4, 2, False), (0, 2, False)])
def test_gpus_that_cannot_be_shared_evenly(gpus: int, procs: int, refused: bool) -> None:
    """A GPU belongs to one process; a remainder would lie idle unseen, or be fought for."""
    role = Role(procs_per_task=procs, resources=Resources(gpus=gpus))
    problems = Jax().validate(JobSpec(framework="jax", roles={"worker": role}))
    assert [problem.key for problem in problems] == (["roles.worker.gpus"] if refused else [])
