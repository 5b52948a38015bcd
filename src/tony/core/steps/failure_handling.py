"""A failure gets its verdict: it is tolerated, ends the session, or ends the job."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_text
from tony.core.policies import failure_policy as failure_policy
from tony.core.policies import restart_policy as restart_policy
from tony.core.policies.failure_policy import Effect
from tony.core.state import RoleState, Task
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, node_exclusion, session_restart, task_attempts
from tony.model.job_report import Failure, FailureClass
from tony.model.job_spec import TimeoutAfter
from tony.model.states import JobState, RoleKind


def of_task(turn: StepContext, task: Task, failure: Failure) -> None:
    """A task has failed. While the session is given up anyway, that decides nothing any more."""
    state = turn.state
    if not state.active:
        task_attempts.note_late(state, task, failure)
        if state.job is JobState.RESTARTING:
            _reconsider(turn, failure)
        return
    node_exclusion.blame(turn, failure)
    judgement = failure_policy.judge(state, task.id)
    if judgement.effect is Effect.TOLERATE:
        if state.roles[task.id.role].kind is RoleKind.TRACKED:
            state.tolerated.append(failure)
        turn.ask(act.Verdict(failure=failure, decision="tolerate", reason=judgement.reason))
        return
    if judgement.reason == failure_policy.EVERY_ONE:
        state.tolerated.append(failure)
        of_all(turn)
        return
    state.failures.append(failure)
    if judgement.effect is Effect.FAIL_JOB and not failure.blameless:
        _fail_job(turn, failure, judgement.reason)
    else:
        _fail_session(turn, failure, judgement.reason)


def _reconsider(turn: StepContext, failure: Failure) -> None:
    """The next session is on its way, and now somebody is heard of who failed before all others: was it worth it?"""
    before = turn.state.failures
    never = restart_policy.never(turn.state, failure)
    if never and before and failure.at < before[0].at:
        _fail_job(turn, failure, never, never)


def of_all(turn: StepContext) -> None:
    """Each tracked task has failed, which was tolerated as long as others could still succeed."""
    state = turn.state
    state.failures += state.tolerated
    state.tolerated.clear()
    if not state.failures:
        said = "no tracked task has succeeded"
        state.failures.append(failure_text.failure_from_job(state, "program", FailureClass.USER, said, turn.now))
    _fail_session(turn, state.failures[0], failure_policy.EVERY_ONE)


def of_group(turn: StepContext, role: RoleState, rule: TimeoutAfter) -> None:
    """A role has outlived its group by more than it may."""
    failure = failure_text.failure_from_group(turn.state, role, rule, turn.now)
    for task in role.tasks:
        if task.living:
            task.judged, task.note = True, failure.reason
    turn.state.failures.append(failure)
    if role.spec.stop_on_failure:
        _fail_job(turn, failure, f"{role.name} has stop_on_failure")
    else:
        _fail_session(turn, failure, f"{role.name} has timeout_after")


def of_job(turn: StepContext, failure: Failure) -> None:
    """A failure that no restart can mend: limits of the job itself, refusals."""
    turn.state.failures.append(failure)
    _fail_job(turn, failure, "a restart would not help")


def unsatisfiable(turn: StepContext, event: ev.Unsatisfiable) -> None:
    """The scheduler can never give what the job needs."""
    state = turn.state
    if state.active:
        of_job(
            turn, failure_text.failure_from_job(state, "refused", FailureClass.INFRASTRUCTURE, event.reason, turn.now)
        )


def _fail_session(turn: StepContext, failure: Failure, why: str) -> None:
    decision = restart_policy.decide(turn.state, failure, turn.now)
    if decision.restart:
        turn.ask(act.Verdict(failure=failure, decision="restart", reason=f"{why}; {decision.reason}"))
        session_restart.restart(turn, failure, decision)
    else:
        _fail_job(turn, failure, f"{why}; {decision.reason}", decision.reason)


def _fail_job(turn: StepContext, failure: Failure, why: str, verdict: str = "") -> None:
    turn.ask(act.Verdict(failure=failure, decision="fail", reason=why))
    job_finish.finish(turn, JobState.FAILED, failure, failure.reason, verdict=verdict)
