"""A program without a framework."""

from __future__ import annotations

from tony.frameworks.no_framework import NoFramework
from tony.model.job_spec import JobSpec, Role


def test_everything_is_allowed() -> None:
    assert not NoFramework().validate(JobSpec(roles={"worker": Role(instances=10_000, procs_per_task=2)}))
