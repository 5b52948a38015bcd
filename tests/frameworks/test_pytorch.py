"""What a PyTorch program finds in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tony.frameworks.pytorch import PyTorch
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


def test_ipv6_address(make_gang: GangMaker) -> None:
    """Brackets belong into a URL, not into MASTER_ADDR."""
    gang = make_gang(JobSpec(framework="pytorch", roles={"worker": Role()}), {"worker": ("[fe80::1]:29500",)})
    variables = gang.environments()[TaskId("worker", 0)][0]
    assert variables["MASTER_ADDR"] == "fe80::1"
    assert variables["MASTER_PORT"] == "29500"
    assert variables["INIT_METHOD"] == "tcp://[fe80::1]:29500"


def test_task_without_roles(make_gang: GangMaker) -> None:
    """A job of one task is a world of one rank."""
    variables = make_gang(JobSpec(framework="pytorch", command="true")).environments()[TaskId("main", 0)][0]
    assert (variables["RANK"], variables["WORLD_SIZE"]) == ("0", "1")


def test_sound_job_has_no_problems() -> None:
    assert not PyTorch().validate(JobSpec(framework="pytorch", roles={"worker": Role(procs_per_task=8)}))
