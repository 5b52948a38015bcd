"""Whether something starts again, and when, and what is charged for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.specs import roles, task, workers
from tony.core.policies.restart_policy import (
    MAX_BACKOFF_SECONDS,
    MAX_FREE_RESTARTS,
    MAX_LAUNCH_RESTARTS,
    MIN_RUN_SECONDS,
    PORT_RESTARTS,
    compute_backoff,
    decide,
)
from tony.core.state import Restart, State
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import RestartScope

NOW = 1000.0


def failure(cause: str = "program", **more: object) -> Failure:
    fields = {
        "failure_class": FailureClass.USER,
        "reason": "why",
        "session": 1,
        "at": NOW,
        "task": task("worker:0"),
        "exit_code": 1,
        **more,
    }
    return Failure(cause=FailureCause(cause), **fields)  # type: ignore[arg-type]


def diagnosed_failure(
    *,
    retry: bool,
    step: float | None = None,
    text: str = "RuntimeError: shard 7",
    kind: FailureKind = FailureKind.USER_CODE,
) -> Failure:
    """A failure with a line of output that says why."""
    line = EvidenceLine(stream="err", number=1, text=text, ago=0.0, rule="python-exception")
    cause = LineMeaning.CAUSE
    return failure(step=step, diagnosis=Diagnosis(kind=kind, meaning=cause, retry=retry, evidence=(line,)))


def test_what_repeats_itself_is_not_retried() -> None:
    state = after(max_restarts=3)
    assert decide(state, diagnosed_failure(retry=True), NOW).restart
    decision = decide(state, diagnosed_failure(retry=False), NOW)
    assert (decision.restart, decision.considered) == (False, True)
    assert not decide(after(max_restarts=0), diagnosed_failure(retry=False), NOW).considered


def test_the_same_error_at_the_same_step_is_not_retried_twice() -> None:
    state = after(max_restarts=3)
    failed = diagnosed_failure(retry=True, step=500)
    assert decide(state, failed, NOW).restart
    state.tasks[task("worker:0")].retried = failed.fingerprint
    assert "500" in decide(state, failed, NOW).reason
    assert not decide(state, failed, NOW).restart
    assert decide(state, diagnosed_failure(retry=True, step=600), NOW).restart
    assert decide(state, diagnosed_failure(retry=True), NOW).restart
    assert decide(state, diagnosed_failure(retry=True, step=500, text="RuntimeError: other"), NOW).restart
    assert not decide(state, diagnosed_failure(retry=True, step=500, text="RuntimeError: shard 8"), NOW).restart


def test_steps_are_compared_exactly() -> None:
    state = after(max_restarts=3)
    state.tasks[task("worker:0")].retried = diagnosed_failure(retry=True, step=1_234_500).fingerprint
    assert decide(state, diagnosed_failure(retry=True, step=1_234_504), NOW).restart
    assert "1,234,500" in decide(state, diagnosed_failure(retry=True, step=1_234_500), NOW).reason


def test_what_may_pass_is_tried_again_at_the_same_step() -> None:
    state = after(max_restarts=3)
    failed = diagnosed_failure(retry=True, step=500, kind=FailureKind.NETWORK)
    state.tasks[task("worker:0")].retried = failed.fingerprint
    assert decide(state, failed, NOW).restart


def blameless_failure(cause: str = "lost") -> Failure:
    """A failure that is not the job's fault."""
    return failure(cause, failure_class=FailureClass.INFRASTRUCTURE, exit_code=None, blameless=True)


def after(*, max_restarts: int, charged: int = 0, for_ports: int = 0) -> State:
    """A job that has restarted so often."""
    return standing(workers(1, max_restarts=max_restarts), charged=charged, for_ports=for_ports)


def standing(spec: JobSpec, *, charged: int = 0, for_ports: int = 0, free: int = 0, ran: float = 5.0) -> State:
    """A job whose only session so far has run for `ran` seconds."""
    state = State("j", spec)
    state.restarts = [Restart(NOW - 10.0 * number, "worker") for number in range(charged, 0, -1)]
    state.restarts_charged, state.restarts_for_ports, state.free = charged, for_ports, free
    state.session, state.started_at = 1, NOW - ran
    for each in state.tasks.values():
        each.session, each.try_, each.started_at = 1, 1, NOW - ran
    return state


TABLE = [
    # max_restarts, charged so far, for ports so far, cause -> restart, charged, the reason
    (0, 0, 0, "program", False, True, "max_restarts = 0"),
    (1, 0, 0, "program", True, True, "restart 1 of 1"),
    (1, 1, 0, "program", False, True, "already restarted once (max_restarts = 1)"),
    (3, 2, 0, "lost", True, True, "restart 3 of 3"),
    (0, 0, 0, "port-collision", True, False, "does not count against max_restarts: a reserved port was taken (1 of 3)"),
    (0, 0, 2, "port-collision", True, False, "does not count against max_restarts: a reserved port was taken (3 of 3)"),
    (0, 0, 3, "port-collision", False, True, "max_restarts = 0"),
    (2, 0, 3, "port-collision", True, True, "restart 1 of 2"),
    (2, 2, 0, "port-collision", True, False, "does not count against max_restarts: a reserved port was taken (1 of 3)"),
    (2, 2, 3, "port-collision", False, True, "already restarted 2 times (max_restarts = 2)"),
]


@pytest.mark.parametrize(("limit", "charged", "ports", "cause", "restart", "is_charged", "reason"), TABLE)
def test_the_budget(
    limit: int, charged: int, ports: int, cause: str, restart: bool, is_charged: bool, reason: str
) -> None:
    """Failures are charged, taken ports are not, three times."""
    decision = decide(after(max_restarts=limit, charged=charged, for_ports=ports), failure(cause), NOW)
    assert (decision.restart, decision.reason) == (restart, reason)
    assert not restart or decision.charged is is_charged
    assert decision.considered is (restart or limit > 0)


def test_a_role_has_a_budget_of_its_own() -> None:
    """Both must have room; only restarts that its own tasks caused count for it."""
    spec = JobSpec(command="x", roles={"worker": Role(max_restarts=2), "ps": Role(max_restarts=0)}, max_restarts=3)
    assert decide(standing(spec, charged=1), failure(), NOW).reason == "restart 2 of 3, 2 of 2 for worker"
    full = decide(standing(spec, charged=2), failure(), NOW)
    assert (full.restart, full.reason) == (False, "already restarted 2 times (roles.worker.max_restarts = 2)")
    assert decide(standing(spec), failure(task=task("ps:0")), NOW).reason == "roles.ps.max_restarts = 0"
    assert decide(standing(spec), failure(task=None), NOW).reason == "restart 1 of 3"
    assert decide(standing(spec, charged=3), failure(), NOW).reason == "already restarted 3 times (max_restarts = 3)"


def test_failures_outside_the_restart_window_do_not_count() -> None:
    """With restart_window the budget comes back; they were 10, 20 and 30 seconds ago."""
    spec = workers(1, max_restarts=3, restart_window=25.0)
    assert decide(standing(spec, charged=3), failure(), NOW).reason == "restart 3 of 3 within 25 s"
    assert not decide(standing(replace(spec, restart_window=60.0), charged=3), failure(), NOW).restart
    assert decide(standing(spec, charged=3), failure(), NOW + 100).delay == 0.0


def test_some_exit_codes_are_never_worth_a_retry() -> None:
    """The role's own list stands instead of the job's."""
    spec = workers(1, max_restarts=3, no_retry_on=(2, 127))
    assert decide(standing(spec), failure(exit_code=1), NOW).restart
    never = decide(standing(spec), failure(exit_code=127), NOW)
    assert (never.restart, never.reason) == (
        False,
        "exit code 127 is not retried (no_retry_on = [2, 127])",
    )
    own = replace(roles(worker=Role(no_retry_on=(3,))), max_restarts=3, no_retry_on=(2,))
    assert decide(standing(own), failure(exit_code=2), NOW).restart
    assert "(roles.worker.no_retry_on = [3])" in decide(standing(own), failure(exit_code=3), NOW).reason


@pytest.mark.parametrize("cause", ["lost", "silent", "launch", "limit", "registration-timeout"])
def test_a_blameless_failure_is_not_charged(cause: str) -> None:
    """Whatever max_restarts is; the second in a row is delayed, and a long run resets the count."""
    state = standing(workers(1))
    first = decide(state, blameless_failure(cause), NOW)
    assert (first.restart, first.charged, first.delay) == (True, False, 0.0)
    state.free = 1
    second = decide(state, blameless_failure(cause), NOW)
    assert second.restart
    assert second.delay >= 1.0
    assert second.reason.endswith(", 2 times in a row")
    assert decide(standing(workers(1), free=1, ran=MIN_RUN_SECONDS), blameless_failure(cause), NOW).delay == 0.0


def test_uncounted_restarts_are_limited() -> None:
    """After a number of short runs in a row; sooner if nothing could be started at all."""
    given_up = decide(standing(workers(1, max_restarts=5), free=MAX_FREE_RESTARTS), blameless_failure(), NOW)
    said = "10 restarts in a row were not caused by the job, and nothing ran for 1 m 00 s in between"
    assert (given_up.restart, given_up.reason) == (False, said)
    assert decide(standing(workers(1), free=MAX_FREE_RESTARTS, ran=MIN_RUN_SECONDS), blameless_failure(), NOW).restart
    launch = decide(standing(workers(1, max_restarts=5), free=MAX_LAUNCH_RESTARTS), blameless_failure("launch"), NOW)
    assert (launch.restart, launch.charged, launch.reason) == (True, True, "restart 1 of 5")
    assert not decide(standing(workers(1), free=MAX_LAUNCH_RESTARTS), blameless_failure("launch"), NOW).restart


def test_a_program_that_ends_early_twice_stays_ended() -> None:
    """min_uptime: once may be chance; only its own ends count, and only before that time."""
    spec = workers(1, max_restarts=5, min_uptime=30.0)
    once = decide(standing(spec), failure(), NOW)
    assert (once.restart, once.early) == (True, True)
    state = standing(spec)
    state.roles["worker"].early = True
    twice = decide(state, failure(), NOW)
    assert (twice.restart, "30 s (min_uptime) twice in a row" in twice.reason) == (False, True)
    assert decide(state, blameless_failure(), NOW).restart
    later = standing(spec, ran=31.0)
    later.roles["worker"].early = True
    assert (decide(later, failure(), NOW).restart, decide(later, failure(), NOW).early) == (True, False)


def test_one_task_alone_has_a_back_off_of_its_own() -> None:
    """The budget is the same; how often others started again makes it no slower."""
    spec = replace(roles(worker=Role(instances=2, restart=RestartScope.TASK)), max_restarts=9)
    state = standing(spec)
    worker, other = state.tasks[task("worker:0")], state.tasks[task("worker:1")]
    state.restarts = [Restart(NOW - 1, "worker", other.id)] * 3
    mine = decide(state, failure(), NOW, alone=worker)
    assert (mine.reason, mine.delay) == ("restart 4 of 9", 0.0)
    state.restarts.append(Restart(NOW, "worker", worker.id))
    assert decide(state, failure(), NOW, alone=worker).delay >= 1.0
    worker.free = MAX_FREE_RESTARTS
    assert not decide(state, blameless_failure(), NOW, alone=worker).restart
    assert not decide(state, blameless_failure(), NOW).restart
    assert decide(state, replace(blameless_failure(), task=other.id), NOW).restart


def test_the_first_restart_is_at_once() -> None:
    """And so is one for a taken port, however many there were."""
    assert decide(after(max_restarts=5), failure(), NOW).delay == 0.0
    assert decide(after(max_restarts=5, charged=4), failure("port-collision"), NOW).delay == 0.0
    assert decide(after(max_restarts=5, charged=1), failure(), NOW).delay >= 1.0
    assert PORT_RESTARTS == 3


@given(st.floats(0, 1e6), st.integers(0, 10_000), st.text(max_size=10))
def test_the_pause_doubles_up_to_a_minute_with_jitter(base: float, done: int, seed: str) -> None:
    """Never longer than the longest, never shorter than it was said, but for the jitter at the longest."""
    pause = compute_backoff(base, done, seed)
    plain = 0.0 if done == 0 else min(base * 2.0 ** min(done - 1, 30), MAX_BACKOFF_SECONDS)
    assert 0.0 <= pause <= MAX_BACKOFF_SECONDS
    assert 0.75 * plain <= pause <= 1.25 * plain
    if plain < MAX_BACKOFF_SECONDS * 0.75:
        assert pause >= plain


def test_the_jitter_differs_between_jobs_and_not_between_replays() -> None:
    """Jobs that failed together do not come back together, not even at the longest pause."""
    for done in (1, 20):
        pauses = {compute_backoff(1.0, done, f"job-{n}") for n in range(50)}
        assert len(pauses) == 50
    assert compute_backoff(1.0, 3, "job-1") == compute_backoff(1.0, 3, "job-1")
