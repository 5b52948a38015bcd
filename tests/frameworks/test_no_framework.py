"""A program without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.frameworks.standalone import NoFramework
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.states import DistributedMode

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker


@pytest.mark.parametrize("mode", list(DistributedMode))
def test_adds_nothing(make_gang: GangMaker, mode: DistributedMode) -> None:
    """Neither variables nor a shared value, in either mode."""
    gang = make_gang(JobSpec(roles={"worker": Role(instances=2)}, distributed_mode=mode))
    assert gang.shared is None
    assert gang.environments() == {TaskId("worker", 0): [{}], TaskId("worker", 1): [{}]}


def test_processes_of_one_task_are_told_apart(make_gang: GangMaker) -> None:
    """They share TASK_INDEX, so LOCAL_RANK says which is which."""
    (first, second) = make_gang(JobSpec(roles={"worker": Role(procs_per_task=2)})).environments()[TaskId("worker", 0)]
    assert first == {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    assert second == {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


def test_everything_is_allowed() -> None:
    """Any number of tasks and processes."""
    assert not NoFramework().validate(JobSpec(roles={"worker": Role(instances=10_000, procs_per_task=2)}))
