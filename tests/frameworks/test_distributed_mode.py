"""Adapters whose programs must know all of their peers refuse fcfs, where a program starts before these registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.facts import mentions
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import DistributedMode

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

MXNET = {"scheduler": Role(), "server": Role()}


@pytest.mark.parametrize(("name", "others"), [("pytorch", {}), ("horovod", {}), ("jax", {}), ("mxnet", MXNET)])
def test_fcfs_is_refused(make_gang: GangMaker, name: str, others: dict[str, Role]) -> None:
    """Should a job come that far all the same, its programs get the common variables."""
    spec = JobSpec(framework=name, roles={"worker": Role(), **others}, distributed_mode=DistributedMode.FCFS)
    gang = make_gang(spec)
    (problem,) = gang.framework.validate(spec)
    assert (problem.key, problem.value) == ("distributed_mode", "fcfs")
    assert mentions(problem.message, 'distributed_mode = "gang"')
    assert gang.environments() == {TaskId(role, 0): [{}] for role in spec.roles}
