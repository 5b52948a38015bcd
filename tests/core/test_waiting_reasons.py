"""Once something has succeeded, a report says which tasks the job still waits for."""

from __future__ import annotations

from tests.core.sample_states import standing
from tests.core.specs import roles, workers
from tests.facts import mentions
from tony.core.state import State
from tony.core.unfinished import describe_unfinished
from tony.model.job_spec import JobSpec, Role
from tony.model.states import AfterCondition, JobState, RoleKind


def running(spec: JobSpec, **tasks: str) -> State:
    """A running job whose tasks are in these states."""
    state = standing(spec, **tasks)
    state.job = JobState.RUNNING
    return state


PS = {"chief": Role(), "worker": Role(instances=2), "ps": Role(kind=RoleKind.UNTRACKED)}


def test_a_chief_that_succeeded_leaves_its_workers() -> None:
    """The untracked ps is not waited for."""
    state = running(roles(**PS), chief="succeeded", worker="running running", ps="running")
    assert describe_unfinished(state) == "chief:0 has succeeded; still waiting for worker:0-1"


def test_nothing_to_say_before_a_success() -> None:
    """Nor when all have ended, nor once the job is stopping."""
    assert describe_unfinished(running(roles(**PS), chief="running", worker="running failed", ps="succeeded")) == ""
    assert describe_unfinished(running(workers(2), worker="succeeded succeeded")) == ""
    state = running(workers(2), worker="succeeded running")
    state.job = JobState.STOPPING
    assert describe_unfinished(state) == ""


def test_tasks_of_one_role_and_many_of_them() -> None:
    """Ranges, and a number for what is too much."""
    state = running(workers(9), worker="succeeded running running succeeded running failed running running running")
    assert (
        describe_unfinished(state)
        == "worker:0, worker:3 have succeeded; still waiting for worker:1-2, worker:4, worker:6-8"
    )
    state = running(workers(8), worker="succeeded running succeeded running succeeded running succeeded running")
    assert mentions(
        describe_unfinished(state),
        "1 more",
        "worker:0",
        "worker:2",
        "worker:4",
        "succeeded",
        "worker:1",
        "worker:3",
        "worker:5",
    )


def test_a_stage_that_is_over_is_no_news() -> None:
    after = {"prep": AfterCondition.SUCCEEDED}
    spec = roles(prep=Role(), worker=Role(instances=2, after=after), check=Role())
    assert describe_unfinished(running(spec, prep="succeeded", worker="running running", check="running")) == ""
    state = running(spec, prep="succeeded", worker="running running", check="succeeded")
    assert describe_unfinished(state) == "check:0 has succeeded; still waiting for worker:0-1"
