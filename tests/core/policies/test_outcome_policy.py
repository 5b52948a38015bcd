"""When a job has succeeded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.sample_states import standing
from tests.core.specs import roles
from tony.core.policies.outcome_policy import find_success
from tony.model.job_spec import Role
from tony.model.setting_choices import RoleKind, StopOn

SPEC = roles(
    chief=Role(),
    worker=Role(instances=2),
    ps=Role(kind=RoleKind.UNTRACKED),
    board=Role(kind=RoleKind.SIDECAR),
)
RUNNING = {"chief": "running", "worker": "running running", "ps": "running", "board": "running"}

ALL_OVER = "every tracked task has ended, {} failure(s) tolerated"
TABLE = [
    # how it stands, stop_on, the reason of its success or None
    ({}, StopOn.ALL, None),
    ({"chief": "succeeded"}, StopOn.ALL, None),
    ({"chief": "succeeded"}, StopOn.CHIEF, 'chief:0 succeeded and stop_on = "chief"'),
    ({"chief": "failed"}, StopOn.CHIEF, None),
    ({"chief": "succeeded", "worker": "succeeded running"}, StopOn.ALL, None),
    ({"chief": "succeeded", "worker": "succeeded succeeded"}, StopOn.ALL, "every tracked task succeeded"),
    (
        {"chief": "succeeded", "worker": "succeeded failed"},
        StopOn.ALL,
        ALL_OVER.format(1),
    ),
    ({"chief": "succeeded", "worker": "lost failed"}, StopOn.ALL, ALL_OVER.format(2)),
    ({"ps": "succeeded", "board": "failed"}, StopOn.ALL, None),
]


@pytest.mark.parametrize(("words", "stop_on", "reason"), TABLE)
def test_tracked_roles_make_success(words: dict[str, str], stop_on: StopOn, reason: str | None) -> None:
    """The job waits for every tracked task, or for the chief, and for no other task."""
    success = find_success(standing(replace(SPEC, stop_on=stop_on), **{**RUNNING, **words}))
    assert (success.rule if success else None) == reason


def test_worker_zero_is_the_chief_where_there_is_none() -> None:
    """`stop_on = "chief"` then speaks of it."""
    spec = replace(roles(worker=Role(instances=2)), stop_on=StopOn.CHIEF)
    assert find_success(standing(spec, worker="running succeeded")) is None
    assert find_success(standing(spec, worker="succeeded running"))
