"""What a JAX program finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.frameworks.jax import Jax
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Resources, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def test_one_process_per_task(make_gang: GangMaker) -> None:
    """Coordinator, size and own number, and nothing else."""
    gang = make_gang(JobSpec(framework="jax", roles={"worker": Role(instances=2, resources=Resources(gpus=2))}))
    assert gang.environments()[TaskId("worker", 1)] == [
        {
            "JAX_COORDINATOR_ADDRESS": "worker-0.example:20000",
            "JAX_NUM_PROCESSES": "2",
            "JAX_PROCESS_ID": "1",
        }
    ]


def test_processes_of_one_task_share_its_gpus(make_gang: GangMaker) -> None:
    """Each process owns its part of the devices; JAX would give all of them to each."""
    role = Role(instances=2, procs_per_task=2, resources=Resources(gpus=4))
    found = make_gang(JobSpec(framework="jax", roles={"worker": role})).environments()
    seen = [
        (one["JAX_PROCESS_ID"], one["JAX_LOCAL_DEVICE_IDS"], one["LOCAL_RANK"])
        for processes in found.values()
        for one in processes
    ]
    assert seen == [("0", "0,1", "0"), ("1", "2,3", "1"), ("2", "0,1", "0"), ("3", "2,3", "1")]


def test_processes_without_gpus_get_no_device_ids(make_gang: GangMaker) -> None:
    """On CPU every process has its own devices anyway."""
    gang = make_gang(JobSpec(framework="jax", roles={"worker": Role(procs_per_task=2)}))
    assert all("JAX_LOCAL_DEVICE_IDS" not in one for one in gang.environments()[TaskId("worker", 0)])


def test_evaluator_beside_the_training_has_no_number(make_gang: GangMaker) -> None:
    """It would be waited for in every collective."""
    gang = make_gang(JobSpec(framework="jax", roles={"worker": Role(instances=2), "evaluator": Role()}))
    assert gang.environments()[TaskId("evaluator", 0)] == [{}]


@pytest.mark.parametrize(("gpus", "procs", "refused"), [(3, 2, True), (1, 2, True), (4, 2, False), (0, 2, False)])
def test_gpus_that_cannot_be_shared_evenly(gpus: int, procs: int, refused: bool) -> None:
    """A GPU belongs to one process; a remainder would lie idle unseen, or be fought for."""
    role = Role(procs_per_task=procs, resources=Resources(gpus=gpus))
    problems = Jax().validate(JobSpec(framework="jax", roles={"worker": role}))
    assert [problem.key for problem in problems] == (["roles.worker.gpus"] if refused else [])
