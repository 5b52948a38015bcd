"""What a PyTorch program finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tony.frameworks.pytorch import PyTorch
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def test_two_roles_with_two_processes_each(make_gang: GangMaker) -> None:
    """Ranks go over roles, tasks and processes; all meet at the chief."""
    roles = {"worker": Role(instances=2, procs_per_task=2), "chief": Role()}
    found = make_gang(JobSpec(framework="pytorch", roles=roles)).environments()
    seen = [
        (str(task), one["RANK"], one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"], one["GROUP_RANK"])
        for task, processes in found.items()
        for one in processes
    ]
    assert seen == [
        ("worker:0", "1", "0", "2", "1"),
        ("worker:0", "2", "1", "2", "1"),
        ("worker:1", "3", "0", "2", "2"),
        ("worker:1", "4", "1", "2", "2"),
        ("chief:0", "0", "0", "1", "0"),
    ]
    for processes in found.values():
        for one in processes:
            assert (one["MASTER_ADDR"], one["MASTER_PORT"]) == ("chief-0.example", "20000")
            assert (one["INIT_METHOD"], one["WORLD"], one["WORLD_SIZE"]) == ("tcp://chief-0.example:20000", "5", "5")


def test_ipv6_address(make_gang: GangMaker) -> None:
    """Brackets belong into a URL, not into MASTER_ADDR."""
    gang = make_gang(JobSpec(framework="pytorch", roles={"worker": Role()}), {"worker": ("[fe80::1]:29500",)})
    variables = gang.environments()[TaskId("worker", 0)][0]
    assert variables["MASTER_ADDR"] == "fe80::1"
    assert variables["MASTER_PORT"] == "29500"
    assert variables["INIT_METHOD"] == "tcp://[fe80::1]:29500"


def test_evaluator_beside_the_training_has_no_rank(make_gang: GangMaker) -> None:
    """Not even LOCAL_RANK, which libraries take as a sign that there are others."""
    gang = make_gang(JobSpec(framework="pytorch", roles={"worker": Role(instances=2), "evaluator": Role()}))
    assert gang.environments()[TaskId("evaluator", 0)] == [{}]


def test_task_without_roles(make_gang: GangMaker) -> None:
    """A job of one task is a world of one rank."""
    variables = make_gang(JobSpec(framework="pytorch", command="true")).environments()[TaskId("main", 0)][0]
    assert (variables["RANK"], variables["WORLD_SIZE"]) == ("0", "1")


def test_sound_job_has_no_problems() -> None:
    """Several processes per task are PyTorch's habit."""
    assert not PyTorch().validate(JobSpec(framework="pytorch", roles={"worker": Role(procs_per_task=8)}))
