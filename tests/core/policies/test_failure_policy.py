"""What one task's failure means, for every policy and every kind of role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.sample_states import standing
from tests.core.specs import roles, task
from tony.core.policies.outcome_policy import Effect, judge_failure
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import FailurePolicy, RoleKind

TOLERATE, SESSION, JOB = Effect.TOLERATE, Effect.FAIL_SESSION, Effect.FAIL_JOB
TRACKED, CHIEF, ANY = FailurePolicy.ANY_TRACKED, FailurePolicy.CHIEF_OR_ALL, FailurePolicy.ANY_TASK

JOBS: dict[str, JobSpec] = {
    "plain": roles(
        chief=Role(instances=2),
        worker=Role(instances=2),
        ps=Role(kind=RoleKind.UNTRACKED),
        board=Role(kind=RoleKind.SIDECAR),
    ),
    "no-chief": roles(worker=Role(instances=2), ps=Role(kind=RoleKind.UNTRACKED)),
    "equal-roles": roles(a=Role(), b=Role()),
    "guarded": roles(worker=Role(instances=2), db=Role(kind=RoleKind.SIDECAR, stop_on_failure=True)),
    "sidecar-chief": roles(chief=Role(kind=RoleKind.SIDECAR), worker=Role()),
}

TABLE = [
    # job, policy, who failed, what it means, a word of the reason
    ("plain", TRACKED, "worker:1", SESSION, "tracked"),
    ("plain", TRACKED, "chief:0", SESSION, "tracked"),
    ("plain", TRACKED, "ps:0", SESSION, "untracked"),
    ("plain", TRACKED, "board:0", TOLERATE, "sidecar"),
    ("plain", CHIEF, "worker:1", TOLERATE, "chief-or-all"),
    ("plain", CHIEF, "worker:0", TOLERATE, "chief-or-all"),
    ("plain", CHIEF, "chief:0", SESSION, "chief"),
    ("plain", CHIEF, "chief:1", SESSION, "chief"),
    ("plain", CHIEF, "ps:0", SESSION, "untracked"),
    ("plain", CHIEF, "board:0", TOLERATE, "sidecar"),
    ("plain", ANY, "worker:1", SESSION, "any-task"),
    ("plain", ANY, "ps:0", SESSION, "any-task"),
    ("plain", ANY, "board:0", SESSION, "any-task"),
    ("no-chief", CHIEF, "worker:0", SESSION, "chief"),
    ("no-chief", CHIEF, "worker:1", TOLERATE, "chief-or-all"),
    ("guarded", TRACKED, "db:0", JOB, "stop_on_failure"),
    ("guarded", CHIEF, "db:0", JOB, "stop_on_failure"),
    ("guarded", ANY, "db:0", JOB, "stop_on_failure"),
    ("guarded", TRACKED, "worker:0", SESSION, "tracked"),
    ("sidecar-chief", CHIEF, "chief:0", TOLERATE, "sidecar"),
]


@pytest.mark.parametrize(("job", "policy", "who", "effect", "word"), TABLE)
def test_a_failure_while_all_others_run(job: str, policy: FailurePolicy, who: str, effect: Effect, word: str) -> None:
    """The table of policies, kinds and chiefs; each decision says its reason."""
    spec = replace(JOBS[job], failure_policy=policy)
    words = {name: ["running"] * role.instances for name, role in spec.roles.items()}
    failed = task(who)
    words[failed.role][failed.index] = "failed"
    judgement = judge_failure(standing(spec, **{name: " ".join(states) for name, states in words.items()}), failed)
    assert judgement.effect is effect
    assert word in judgement.reason


def test_the_last_tracked_failure_is_not_tolerated() -> None:
    """`chief-or-all`: once every tracked task has failed, no task is left to succeed."""
    spec = replace(JOBS["equal-roles"], failure_policy=CHIEF)
    assert judge_failure(standing(spec, a="failed", b="running"), task("a:0")).effect is TOLERATE
    assert judge_failure(standing(spec, a="failed", b="succeeded"), task("a:0")).effect is TOLERATE
    assert judge_failure(standing(spec, a="failed", b="failed"), task("b:0")).effect is Effect.FAIL_ALL
    assert judge_failure(standing(spec, a="lost", b="failed"), task("b:0")).effect is Effect.FAIL_ALL
    assert judge_failure(standing(spec, a="failed"), task("a:0")).effect is TOLERATE


def test_a_task_that_never_ran_is_not_tolerated() -> None:
    """`chief-or-all` is about programs that ran; a gang without one of its members is none."""
    spec = replace(JOBS["no-chief"], failure_policy=CHIEF)
    state = standing(spec, worker="running *failed", ps="running")
    judgement = judge_failure(state, task("worker:1"))
    assert (judgement.effect, judgement.reason) == (SESSION, "worker:1 was never started")


def test_a_role_that_became_untracked_still_counts() -> None:
    """After an ignored group time-out its failure fails the session; with `stop_on_failure` the job, as before."""
    for stop_on_failure, effect in ((False, SESSION), (True, JOB)):
        spec = roles(worker=Role(), evaluator=Role(stop_on_failure=stop_on_failure))
        state = standing(spec, worker="running", evaluator="failed")
        state.roles["evaluator"].kind = RoleKind.UNTRACKED
        assert judge_failure(state, task("evaluator:0")).effect is effect
