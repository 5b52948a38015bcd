"""Which roles may start, which never can, and when a group is done."""

from __future__ import annotations

import pytest

from tests.core.sample_states import standing
from tests.core.specs import roles
from tony.core.policies.start_order import find_newly_blocked, find_newly_ready, is_group_done
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition, RoleKind

SUCCEEDED, ENDED, STARTED = AfterCondition.SUCCEEDED, AfterCondition.ENDED, AfterCondition.STARTED


def two(condition: AfterCondition) -> JobSpec:
    """`b` waits for the two tasks of `a`."""
    return roles(a=Role(instances=2), b=Role(after={"a": condition}))


TABLE = [
    # how a stands, and for each condition: may b start, and if not, can it never
    ("pending pending", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "waits"}),
    ("running pending", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "waits"}),
    ("running running", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "starts"}),
    ("succeeded running", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "starts"}),
    ("succeeded succeeded", {SUCCEEDED: "starts", ENDED: "starts", STARTED: "starts"}),
    ("failed running", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "starts"}),
    ("failed succeeded", {SUCCEEDED: "never", ENDED: "starts", STARTED: "starts"}),
    ("lost stopped", {SUCCEEDED: "never", ENDED: "starts", STARTED: "starts"}),
    ("*failed running", {SUCCEEDED: "waits", ENDED: "waits", STARTED: "never"}),
    ("*lost succeeded", {SUCCEEDED: "never", ENDED: "starts", STARTED: "never"}),
]


@pytest.mark.parametrize("condition", AfterCondition)
@pytest.mark.parametrize(("words", "answers"), TABLE)
def test_one_waits_for_another(condition: AfterCondition, words: str, answers: dict[AfterCondition, str]) -> None:
    """Every way the first role can stand, for every condition."""
    state = standing(two(condition), a=words)
    ready = [role.name for role in find_newly_ready(state.roles)]
    never = [role.name for role, _ in find_newly_blocked(state.roles)]
    expected = {"waits": ([], []), "starts": (["b"], []), "never": ([], ["b"])}[answers[condition]]
    assert (ready, never) == expected


def test_all_that_is_waited_for_counts() -> None:
    """One of two is not enough."""
    spec = roles(a=Role(), b=Role(), c=Role(after={"a": SUCCEEDED, "b": STARTED}))
    assert list(find_newly_ready(standing(spec, a="succeeded", b="requested").roles)) == []
    assert [r.name for r in find_newly_ready(standing(spec, a="succeeded", b="running").roles)] == ["c"]


def test_reasons_name_the_awaited_roles() -> None:
    """Each role that can never start has its own sentence, those further down the chain too."""
    spec = roles(
        a=Role(instances=3),
        b=Role(after={"a": SUCCEEDED}),
        c=Role(after={"b": ENDED}),
        d=Role(after={"a": STARTED}),
    )
    state = standing(spec, a="*failed failed succeeded")
    assert [(role.name, why) for role, why in find_newly_blocked(state.roles)] == [
        ("b", "b may start only after a succeeded, and 2 of its tasks did not"),
        ("c", "c waits for b, which can never start"),
        ("d", "d may start only once all tasks of a run, and 1 of them never started"),
    ]


def test_a_chain_may_stand_in_any_order() -> None:
    """The job's author need not write down first what starts first."""
    spec = roles(c=Role(after={"b": ENDED}), b=Role(after={"a": SUCCEEDED}), a=Role())
    state = standing(spec, a="failed")
    assert [role.name for role, _ in find_newly_blocked(state.roles)] == ["b", "c"]


def test_a_reported_wait_is_not_reported_again() -> None:
    """A role that begins to wait later is still found."""
    spec = roles(a=Role(), b=Role(after={"a": SUCCEEDED}), c=Role(after={"b": ENDED}))
    state = standing(spec, a="failed")
    state.roles["b"].blocked = True
    assert [role.name for role, _ in find_newly_blocked(state.roles)] == ["c"]
    state.roles["c"].blocked = True
    assert list(find_newly_blocked(state.roles)) == []


def test_a_group_is_done_when_all_its_tasks_have_exited() -> None:
    """With any exit code; those of an earlier session count."""
    spec = roles(a=Role(instances=2), b=Role(), c=Role(kind=RoleKind.SIDECAR))
    assert not is_group_done(standing(spec, a="succeeded running", b="failed").roles, ("a", "b"))
    assert is_group_done(standing(spec, a="succeeded lost", b="failed").roles, ("a", "b"))
    state = standing(spec, a="succeeded succeeded")
    assert not is_group_done(state.roles, ("a", "b"))
    state.roles["b"].finished = True
    assert is_group_done(state.roles, ("a", "b"))
