"""The variables that every program gets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tony.frameworks.base import build_common_environment
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import DistributedMode, RoleKind

if TYPE_CHECKING:
    from tests.frameworks.conftest import GangMaker

ROLES = {"chief": Role(), "worker": Role(instances=2), "ps": Role(kind=RoleKind.UNTRACKED)}


def test_variables_of_a_chief_and_of_a_restart(make_gang: GangMaker) -> None:
    """As in LinkedIn TonY: there only where they say something."""
    view = make_gang(JobSpec(roles=ROLES)).view(TaskId("chief", 0))
    assert build_common_environment(view)["IS_CHIEF"] == "true"
    later = build_common_environment(replace(view, session=3, attempt=2))
    assert (later["NUM_AM_RETRIES"], later["ATTEMPT_NUMBER"], later["SESSION_ID"]) == ("2", "1", "3")


@pytest.mark.parametrize("mode", list(DistributedMode))
def test_mode_is_written_as_in_the_original(make_gang: GangMaker, mode: DistributedMode) -> None:
    view = make_gang(JobSpec(roles=ROLES, distributed_mode=mode)).view(TaskId("worker", 0))
    assert build_common_environment(view)["DISTRIBUTED_MODE"] == mode.name
