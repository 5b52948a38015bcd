"""One task restarts alone, as its next task attempt in the same session (`restart = "task"`), and the others run on."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import restart_policy as policy
from tony.core.reasons import RestartAfterFailure
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, gang_start, node_exclusion, session_restart, task_attempts
from tony.core.transitions import TaskMove
from tony.model.job_report import Failure, FailureCause
from tony.model.setting_choices import RestartScope, RoleKind


def is_bound(state: State, task: Task) -> bool:
    """Return True if a task cannot move to another host: its peers have its address."""
    role = state.roles[task.id.role]
    if not role.version or role.kind is RoleKind.SIDECAR:
        return False
    return state.spec.tells_peers or (task is role.members[0] and role.name in state.spec.addressed_roles)


def decide(ctx: StepContext, task: Task, failure: Failure) -> bool:
    """Return True if a failed task restarts alone; then its failure has no other consequence."""
    state = ctx.state
    spec = state.roles[task.id.role].spec
    if spec.restart is not RestartScope.TASK or spec.stop_on_failure or not state.active:
        return False
    moves = (
        _needs_move(state, task)
        or node_exclusion.is_avoided(state, task)
        or failure.cause is FailureCause.PORT_COLLISION
    )
    if moves and is_bound(state, task):
        return False
    decision = policy.decide(state, failure, ctx.now, alone=task)
    if not decision.restart:
        return False
    node_exclusion.count_failure(ctx, failure)
    session_restart.record_restart(ctx, failure, decision, alone=task)
    task.retry_at = ctx.now + decision.delay
    task.note = RestartAfterFailure(failure=failure, decision=decision.reason)
    ctx.request(act.ReportFailure(failure=failure, decision=ev.FailureResponse.RETRY, reason=decision.reason))
    if failure.cause is FailureCause.PORT_COLLISION:  # its ports are taken: reserve others in another container
        held = containers.find_container(state, task)
        if held:
            containers.kill(ctx, held, failure.reason)
    return True


def _needs_move(state: State, task: Task) -> bool:
    held = containers.find_container(state, task)
    return held is None or held.is_released


def begin(ctx: StepContext, task: Task, at: float) -> bool:
    """Restart a task whose program has provably ended, at `at`.

    Return False if it cannot restart after all: its container has ended meanwhile, and its peers have its address.
    """
    state = ctx.state
    assert task.retry_at is not None
    bound = is_bound(state, task)
    if bound and _needs_move(state, task):
        return False
    moves = _needs_move(state, task) or (not bound and node_exclusion.is_avoided(state, task))
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
    gang_start.start_if_due(ctx, task)
    return True


def replace(ctx: StepContext, task: Task) -> None:
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
    containers.request(ctx, task, TaskMove.REPLACE)
    if held:
        containers.kill(ctx, held, "its task moves to another container")
        containers.detach(ctx.state, held)
    containers.update_demand(ctx, ctx.state.roles[task.id.role])
