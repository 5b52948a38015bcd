"""A task ended: it restarts alone, as its next task attempt in the same session (`restart = "task"`), while the others
run on; or its container is released, and its role, session and job react.
"""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import memory_policy
from tony.core.policies import restart_policy as policy
from tony.core.reasons import RestartAfterFailure, TaskFailed
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    container_demand,
    containers,
    failure_handling,
    gang,
    job_finish,
    node_exclusion,
    role_readiness,
    session_restart,
    task_attempts,
)
from tony.core.transitions import TaskMove
from tony.model.failure import ContainerLoss, Failure, FailureCause
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import RestartScope, RoleKind, StopOn
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState


def on_task_end(ctx: StepContext, task: Task) -> None:
    """Handle the end of a task. Its failure, if any, has been classified."""
    state = ctx.state
    if task.state not in ENDED_TASK_STATES:
        return  # it continues with its next task attempt
    failure_handling.decide_on_suspects_if_idle(ctx)
    held = containers.find_container(state, task)
    if held and (state.job is JobState.STOPPING or (state.active and not state.may_restart)):
        containers.release(ctx, held)
    if state.job is JobState.RESTARTING:
        session_restart.open_next_session_if_idle(ctx)
    elif state.job is JobState.STOPPING:
        job_finish.finish_if_idle(ctx)
    elif state.active:
        role = state.roles[task.id.role]
        if role.ended == role.total:
            if role.kind is RoleKind.SETUP and role.succeeded == role.total:
                containers.release_all(ctx, role)  # it is never run again
            role_readiness.on_role_end(ctx, role)
        elif not task.started:
            role_readiness.report_blocked(ctx)
        elif state.spec.stop_on is not StopOn.CHIEF:
            return  # no role waits for a single task
        role_readiness.advance(ctx)


def on_failed_exit(ctx: StepContext, task: Task, status: ExitStatus, at: float) -> None:
    """Handle a program that exited with a failure."""
    state = ctx.state
    task.ended_at = at
    end = task.container_end if task.container_ended_at is not None else None
    failure = failure_builders.failure_from_exit(state, task, status, end)
    if not (_decide_retry(ctx, task, failure) and _begin_retry(ctx, task, at)):
        task_attempts.end_attempt(ctx, task, TaskMove.FAIL, at)
        failure_handling.fail_task(ctx, task, failure)
    on_task_end(ctx, task)


def handle_external_stop(ctx: StepContext, task: Task) -> None:
    """Handle an external stop, once the end of the container gave the cause, or did not in time."""
    assert task.external_exit is not None
    on_failed_exit(ctx, task, task.external_exit, task.external_exit_at)


def end_classified(ctx: StepContext, task: Task, move: TaskMove, at: float) -> None:
    """Handle the end of a program whose failure was classified before."""
    retried = task.retry_at is not None
    if retried and _begin_retry(ctx, task, at):
        return
    task_attempts.end_attempt(ctx, task, move, at)
    if retried:
        how = ContainerLoss.NOT_RESTARTED
        lost = failure_builders.failure_from_loss(ctx.state, task, task.container_end, at, how)
        failure_handling.fail_task(ctx, task, lost)
    on_task_end(ctx, task)


def on_failure(ctx: StepContext, task: Task, failure: Failure) -> None:
    """Handle a failure that is not the program's exit: a timeout, silence, no container that works."""
    task.is_classified, task.note = True, TaskFailed(failure=failure)
    if _decide_retry(ctx, task, failure):
        if not task.living:
            _replace_container(ctx, task)
        elif task.state is TaskState.RUNNING:
            task_attempts.stop(ctx, task, failure)
        return
    if not task.living:
        task_attempts.end_task(ctx, task, TaskMove.FAIL)
        held = containers.find_container(ctx.state, task)
        if held and ctx.state.active:
            containers.kill(ctx, held, failure.reason)
    elif task.state is TaskState.RUNNING:
        task_attempts.stop(ctx, task, failure)
    failure_handling.fail_task(ctx, task, failure)
    if not task.living:
        on_task_end(ctx, task)


def on_lost(ctx: StepContext, task: Task) -> None:
    """Handle that the container of a running program is gone and its report will not arrive."""
    if task.is_classified:
        end_classified(
            ctx, task, TaskMove.LOSE, ctx.now if task.container_ended_at is None else task.container_ended_at
        )
        return
    failure = task_attempts.failure_from_loss(ctx, task)
    if failure and _decide_retry(ctx, task, failure) and _begin_retry(ctx, task, failure.at):
        return
    task_attempts.end_lost(ctx, task)
    if failure:
        failure_handling.fail_task(ctx, task, failure)
    on_task_end(ctx, task)


def is_bound(state: State, task: Task) -> bool:
    """Return True if a task cannot move to another host: its peers have its address."""
    role = state.roles[task.id.role]
    if not role.version or role.kind is RoleKind.SIDECAR:
        return False
    return state.spec.tells_peers or (task is role.members[0] and role.name in state.spec.addressed_roles)


def _decide_retry(ctx: StepContext, task: Task, failure: Failure) -> bool:
    """Return True if a failed task restarts alone; then its failure has no other consequence."""
    state = ctx.state
    spec = state.roles[task.id.role].spec
    if spec.restart is not RestartScope.TASK or spec.stop_on_failure or not state.active:
        return False
    moves = (
        _needs_move(state, task)
        or node_exclusion.is_avoided(state, task)
        or failure.cause is FailureCause.PORT_COLLISION
        or memory_policy.find_next_memory(state, failure) is not None
    )
    if moves and is_bound(state, task):
        return False
    decision = policy.decide(state, failure, ctx.now, alone=task)
    if not decision.restart:
        return False
    memory = memory_policy.find_next_memory(state, failure)
    node_exclusion.count_failure(ctx, failure)
    session_restart.record_restart(ctx, failure, decision, alone=task)
    task.retry_at = ctx.now + decision.delay
    task.note = RestartAfterFailure(failure=failure, decision=decision.reason)
    retry = ev.FailureResponse.RETRY
    ctx.request(act.ReportFailure(failure=failure, decision=retry, reason=decision.reason, memory=memory))
    if failure.cause is FailureCause.PORT_COLLISION:  # its ports are taken: reserve others in another container
        held = containers.find_container(state, task)
        if held:
            containers.kill(ctx, held, failure.reason)
    return True


def _needs_move(state: State, task: Task) -> bool:
    held = containers.find_container(state, task)
    return held is None or held.is_released


def _begin_retry(ctx: StepContext, task: Task, at: float) -> bool:
    """Restart a task whose program has provably ended, at `at`.

    Return False if it cannot restart after all: its container has ended meanwhile, and its peers have its address.
    """
    state = ctx.state
    assert task.retry_at is not None
    bound = is_bound(state, task)
    if bound and _needs_move(state, task):
        return False
    is_unfit = node_exclusion.is_avoided(state, task) or memory_policy.is_too_small(state, task)
    moves = _needs_move(state, task) or (not bound and is_unfit)
    note = task.note
    task_attempts.clear_attempt(ctx, task, at)
    task.is_classified = False
    if moves:
        _move_to_other_container(ctx, task)
    else:
        state.move_task(task, TaskMove.RETRY, ctx.now)
    task.note = note
    if task.retry_at > ctx.now:
        state.timers.set(Deadline(DeadlineKind.TASK_RESTART, task.id), task.retry_at)
    gang.start_task_if_due(ctx, task)
    return True


def _replace_container(ctx: StepContext, task: Task) -> None:
    """Request another container for a task that restarts and whose program never ran in this attempt."""
    task.is_classified, task.launches = False, 0
    note = task.note
    if task.session != ctx.state.session:
        task.retry_at = None  # it starts with its gang
    elif task.retry_at is not None and task.retry_at > ctx.now:
        ctx.state.timers.set(Deadline(DeadlineKind.TASK_RESTART, task.id), task.retry_at)
    _move_to_other_container(ctx, task)
    task.note = note


def _move_to_other_container(ctx: StepContext, task: Task) -> None:
    held = containers.find_container(ctx.state, task)
    container_demand.request_other(ctx, task)
    if held:
        containers.discard(ctx, held, "its task moves to another container")
    container_demand.update_demand(ctx, ctx.state.roles[task.id.role])
