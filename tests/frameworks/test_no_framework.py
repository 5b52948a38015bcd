"""A program without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tony.frameworks.standalone import NoFramework
from tony.model.job_spec import JobSpec, Role

if TYPE_CHECKING:
    pass


def test_everything_is_allowed() -> None:
    assert not NoFramework().validate(JobSpec(roles={"worker": Role(instances=10_000, procs_per_task=2)}))
