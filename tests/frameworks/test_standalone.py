"""A job of exactly one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tony.frameworks.standalone import Standalone
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import RoleKind

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize("roles", [{"worker": Role()}, {}])
def test_one_task_is_right(roles: dict[str, Role]) -> None:
    """One role of one task, or no role at all."""
    assert not Standalone().validate(JobSpec(framework="standalone", command="true", roles=roles))


def test_more_tasks_are_refused_with_their_number() -> None:
    """The message names how many there are, and in which roles; sidecars count too."""
    roles = {"worker": Role(instances=2), "shipper": Role(kind=RoleKind.SIDECAR)}
    (problem,) = Standalone().validate(JobSpec(framework="standalone", roles=roles))
    assert (problem.key, problem.value) == ("framework", "standalone")
    assert "has exactly one task, this one has 3 (worker 2, shipper 1)" in problem.message


def test_several_processes_are_refused() -> None:
    """They could not tell each other apart."""
    spec = JobSpec(framework="standalone", roles={"worker": Role(procs_per_task=2)})
    assert [problem.key for problem in Standalone().validate(spec)] == ["roles.worker.procs_per_task"]
