"""Classifies a failure: it is tolerated, ends the session, or ends the job."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import memory_policy, outcome_policy, restart_policy
from tony.core.policies.outcome_policy import Effect, FailureDecision
from tony.core.reasons import RestartAfterFailure, TaskFailed
from tony.core.state import RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import job_finish, node_exclusion, session_restart, task_attempts
from tony.model.diagnosis import FailureKind
from tony.model.failure import Failure, FailureCause, FailureClass, MessageFacts
from tony.model.job_spec import BYSTANDERS, TimeoutAfter
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState

#: Seconds for the task that others failed because of to fail, too: its report may take longer than theirs.
ROOT_CAUSE_WAIT_SECONDS = 3.0
#: Kinds of consequences that say that a peer did not come, not that it went away.
_WAITING_KINDS = frozenset({FailureKind.HANG, FailureKind.RENDEZVOUS})
#: Kinds of consequences that a peer that has ended may have.
_PEER_KINDS = _WAITING_KINDS | {FailureKind.NETWORK}
#: Seconds from the end of a task to the first error of its peers: of connections that it closed, and of time limits,
#: which are half an hour at most where programs do not set them.
_CLOSED_SECONDS = 5.0
_WAITED_SECONDS = 3600.0


def fail_task(ctx: StepContext, task: Task, failure: Failure) -> None:
    """Handle the failure of a task. While the session is ending anyway, it is only recorded."""
    state = ctx.state
    if not state.active:
        task_attempts.record_late_failure(state, task, failure)
        if state.job is JobState.RESTARTING:
            _reconsider(ctx, failure)
        return
    node_exclusion.count_failure(ctx, failure)
    decision = outcome_policy.decide_on_failure(state, task.id)
    if decision.effect is Effect.TOLERATE:
        if state.roles[task.id.role].kind is RoleKind.TRACKED:
            state.tolerated.append(failure)
        ctx.request(act.ReportFailure(failure=failure, decision=ev.FailureResponse.TOLERATE, reason=decision.reason))
        return
    if decision.effect is Effect.FAIL_ALL:
        state.tolerated.append(failure)
        fail_all_tasks(ctx)
        return
    if failure.is_consequence and not state.failures:
        state.suspects.append(failure)
        if not _has_running_peer(state, task):
            decide_on_suspects(ctx)
        elif Deadline(DeadlineKind.ROOT_CAUSE) not in state.timers:
            state.timers.set(Deadline(DeadlineKind.ROOT_CAUSE), ctx.now + ROOT_CAUSE_WAIT_SECONDS)
        return
    _take_suspects(state)
    state.failures.append(failure)
    if failure.is_consequence:  # the other one that is nearest to the cause
        failure = job_finish.select_first_failure(state.failures)
        decision = _decide_on_cause(state, failure)
    _carry_out(ctx, failure, decision)


def _carry_out(ctx: StepContext, failure: Failure, decision: FailureDecision) -> None:
    """Fail the job or the session, as decided."""
    if decision.effect is Effect.FAIL_JOB and not failure.blameless:
        _finish_failed(ctx, failure, decision.reason)
    else:
        _fail_session(ctx, failure, decision.reason)


def _decide_on_cause(state: State, failure: Failure) -> FailureDecision:
    """Return what a failure means that others, which are not tolerated, follow from."""
    assert failure.task
    decision = outcome_policy.decide_on_failure(state, failure.task)
    if decision.effect in (Effect.FAIL_SESSION, Effect.FAIL_JOB):
        return decision
    return FailureDecision(Effect.FAIL_SESSION, f"other tasks failed because of {failure.task}")


def _has_running_peer(state: State, task: Task) -> bool:
    """Return True if another program still runs, whose failure may be the cause of this task's."""
    return _count_running(state) > (task.state is TaskState.RUNNING)


def _count_running(state: State) -> int:
    return sum(role.counts[TaskState.RUNNING] for role in state.roles.values())


def _take_suspects(state: State) -> None:
    state.failures += state.suspects
    state.suspects.clear()
    state.timers.cancel(Deadline(DeadlineKind.ROOT_CAUSE))


def decide_on_suspects(ctx: StepContext) -> None:
    """Handle that no task failed for a reason of its own in time: the first failure counts."""
    state = ctx.state
    if not state.suspects or not state.active:
        return
    cause = _find_early_end(state) or _find_missing_peer(ctx)
    _take_suspects(state)
    if cause:
        state.failures.append(cause)
    failure = job_finish.select_first_failure(state.failures)
    _carry_out(ctx, failure, _decide_on_cause(state, failure))


def _find_early_end(state: State) -> Failure | None:
    """Return the failure of a task that ended with exit code 0 although the others still needed it.

    It is of the same role as those that failed, since other roles may end early. Most of this role's tasks that had not
    succeeded have failed, soon after its end, or because they waited for a peer: independent tasks end at any time.
    """
    suspects = [(failure, failure.task) for failure in state.suspects if failure.task]
    kinds = {failure.diagnosis.kind for failure, _ in suspects if failure.diagnosis}
    if not suspects or not kinds <= _PEER_KINDS:
        return None
    role = state.roles[suspects[0][1].role]
    peers = sorted(task for _, task in suspects)
    if role.kind is not RoleKind.TRACKED or role.name in BYSTANDERS or any(task.role != role.name for task in peers):
        return None
    limit = _WAITED_SECONDS if kinds <= _WAITING_KINDS else _CLOSED_SECONDS
    earliest = min(failure.error_at for failure, _ in suspects) - limit
    named = job_finish.find_named_tasks(state.suspects)
    ended = [
        (task.ended_at, task)
        for task in role.members
        if task.state is TaskState.SUCCEEDED
        and task.session == state.session
        and task.ended_at is not None
        and task.ended_at >= earliest
        and (not named or task.id in named)
    ]
    if not ended or len(peers) < role.counts[TaskState.RUNNING]:
        return None
    return failure_builders.failure_from_early_end(state, min(ended)[1], peers)


def _find_missing_peer(ctx: StepContext) -> Failure | None:
    """Return the failure of a task that still runs and that another names, or for which all others timed out."""
    state = ctx.state
    running = [
        task
        for task in state.tasks.values()
        if task.state is TaskState.RUNNING
        and state.roles[task.id.role].kind is RoleKind.TRACKED
        and task.id.role not in BYSTANDERS
    ]
    named = job_finish.find_named_tasks(state.suspects)
    if named:
        running = [task for task in running if task.id in named][:1]
    waited = all(failure.diagnosis and failure.diagnosis.kind in _WAITING_KINDS for failure in state.suspects)
    if not waited or len(running) != 1:
        return None
    return failure_builders.failure_from_missing_peer(state, running[0], state.suspects[0], ctx.now)


def decide_on_suspects_if_idle(ctx: StepContext) -> None:
    """Decide if no running program is left that could be the cause."""
    state = ctx.state
    if state.suspects and not _count_running(state):
        decide_on_suspects(ctx)


def _reconsider(ctx: StepContext, failure: Failure) -> None:
    """Fail the job if a failure reported late was the first one of this session, and is not to be retried."""
    before = ctx.state.failures
    never = restart_policy.explain_no_restart(ctx.state, failure)
    if never and before and before[0] is not failure and failure is job_finish.select_first_failure(before):
        _finish_failed(ctx, failure, never, never)
    else:
        session_restart.raise_memory(ctx, failure)


def fail_all_tasks(ctx: StepContext) -> None:
    """Handle that every tracked task has failed, which was tolerated as long as others could still succeed."""
    state = ctx.state
    state.failures += state.tolerated
    state.tolerated.clear()
    if not state.failures:
        facts = MessageFacts(message="no tracked task has succeeded")
        state.failures.append(
            failure_builders.failure_from_job(state, FailureCause.PROGRAM, FailureClass.USER, facts, ctx.now)
        )
    _fail_session(ctx, state.failures[0], outcome_policy.ALL_FAILED)


def fail_group(ctx: StepContext, role: RoleState, rule: TimeoutAfter) -> None:
    """Handle a role that exceeded its `timeout_after`."""
    failure = failure_builders.failure_from_group(ctx.state, role, rule, ctx.now)
    for task in role.tasks:
        if task.living:
            task.is_classified, task.note = True, TaskFailed(failure=failure)
    ctx.state.failures.append(failure)
    if role.spec.stop_on_failure:
        _finish_failed(ctx, failure, f"{role.name} has stop_on_failure")
    else:
        _fail_session(ctx, failure, f"{role.name} has timeout_after")


def restart_session(ctx: StepContext, failure: Failure, why: str) -> None:
    """Handle a failure of the session that no task reported: it restarts if restarts are left."""
    ctx.state.failures.append(failure)
    _fail_session(ctx, failure, why)


def fail_job(ctx: StepContext, failure: Failure, why: str = "a restart would not help") -> None:
    """Handle a failure after which nothing restarts: limits of the job itself, refusals."""
    ctx.state.failures.append(failure)
    _finish_failed(ctx, failure, why)


def on_unsatisfiable(ctx: StepContext, event: ev.Unsatisfiable) -> None:
    """Handle that the scheduler can never satisfy the job's request.

    If it is for more memory than the job asks for, because a task was killed for memory, that is why the job fails.
    """
    state = ctx.state
    killed = _find_memory_failure(state, event.role)
    is_running = state.active or state.job is JobState.RESTARTING
    if killed and is_running:
        state.failures = [killed, *(failure for failure in state.failures if failure is not killed)]
        _finish_failed(ctx, killed, event.reason, event.reason)
    elif is_running:
        kind, facts = FailureClass.INFRASTRUCTURE, MessageFacts(message=event.reason)
        fail_job(ctx, failure_builders.failure_from_job(state, FailureCause.REFUSED, kind, facts, ctx.now))


def _find_memory_failure(state: State, name: str) -> Failure | None:
    """Return the failure after which a role is requested with more memory than the job says; None if it is not."""
    role = state.roles.get(name)
    if role is None or role.memory <= role.spec.resources.memory:
        return None
    reasons = (state.restart, *(task.note for task in role.tasks))
    failures = (reason.failure for reason in reasons if isinstance(reason, RestartAfterFailure))
    return next((failure for failure in failures if failure.cause is FailureCause.MEMORY), None)


def _fail_session(ctx: StepContext, failure: Failure, why: str) -> None:
    decision = restart_policy.decide(ctx.state, failure, ctx.now)
    if decision.restart:
        reason, memory = f"{why}; {decision.reason}", memory_policy.find_next_memory(ctx.state, failure)
        restart = ev.FailureResponse.RESTART
        ctx.request(act.ReportFailure(failure=failure, decision=restart, reason=reason, memory=memory))
        session_restart.restart(ctx, failure, decision)
    else:
        no_restart_reason = decision.reason if decision.considered else ""
        _finish_failed(ctx, failure, f"{why}; {decision.reason}", no_restart_reason)


def _finish_failed(ctx: StepContext, failure: Failure, why: str, no_restart_reason: str = "") -> None:
    ctx.request(act.ReportFailure(failure=failure, decision=ev.FailureResponse.FAIL, reason=why))
    job_finish.finish(ctx, JobState.FAILED, failure, no_restart_reason=no_restart_reason)
