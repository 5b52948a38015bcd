"""Handles deadlines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import DeadlineKind
from tony.core.state import Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    am_attempts,
    container_loss,
    failure_handling,
    gang,
    job_finish,
    node_exclusion,
    role_readiness,
    session_restart,
    task_attempts,
    task_exit,
)
from tony.model.ids import TaskId
from tony.model.setting_choices import OnTimeout, RoleKind
from tony.model.states import JobState


def on_deadline(ctx: StepContext, event: ev.DeadlinePassed) -> None:
    """Handle a deadline; one that was moved, cancelled or is early does nothing."""
    kind, subject = event.deadline
    if not ctx.state.timers.pop_due(event.deadline, ctx.now) or am_attempts.postpone(ctx, event.deadline):
        return
    match subject:
        case TaskId():
            _TASK_HANDLERS[kind](ctx, ctx.state.tasks[subject])
        case str():
            _NAME_HANDLERS[kind](ctx, subject)
        case None:
            _JOB_HANDLERS[kind](ctx)


def _on_task_timeout(kind: DeadlineKind, ctx: StepContext, task: Task) -> None:
    if task.external_exit is not None:
        task_exit.handle_external_stop(ctx, task)
    elif task.container_ended_at is not None:
        task_exit.on_lost(ctx, task)
    elif not task.is_classified:
        task_exit.on_failure(ctx, task, failure_builders.failure_from_timeout(ctx.state, task, kind, ctx.now))


def _on_lease_end(ctx: StepContext, task: Task) -> None:
    end = container_loss.build_container_ended(ctx, task)
    if end:
        container_loss.on_container_ended(ctx, end)


def _on_group_timeout(ctx: StepContext, name: str) -> None:
    role = ctx.state.roles[name]
    rule = role.spec.timeout_after
    if rule is None or not ctx.state.active or role.ended == role.total:
        return
    if rule.on_timeout is OnTimeout.FAIL:
        failure_handling.fail_group(ctx, role, rule)
        return
    if role.kind is RoleKind.TRACKED:
        role.kind = RoleKind.UNTRACKED
    role_readiness.advance(ctx)


def _on_job_timeout(kind: DeadlineKind, ctx: StepContext) -> None:
    failure_handling.fail_job(ctx, failure_builders.failure_from_job_timeout(ctx.state, kind, ctx.now))


def _on_allocation_timeout(ctx: StepContext) -> None:
    limit = ctx.state.spec.timeouts.allocation or 0
    if not gang.start_with_fewer(ctx, limit, "allocation_timeout"):
        _on_job_timeout(DeadlineKind.ALLOCATION, ctx)


def _on_kill_timeout(ctx: StepContext) -> None:
    task_attempts.kill_remaining(ctx)
    if ctx.state.job is JobState.STOPPING:
        job_finish.abandon(ctx)


_TASK_HANDLERS: Mapping[DeadlineKind, Callable[[StepContext, Task], None]] = {
    DeadlineKind.REGISTRATION: partial(_on_task_timeout, DeadlineKind.REGISTRATION),
    DeadlineKind.STARTUP: partial(_on_task_timeout, DeadlineKind.STARTUP),
    DeadlineKind.EXECUTION: partial(_on_task_timeout, DeadlineKind.EXECUTION),
    DeadlineKind.REPORT: task_exit.on_lost,
    DeadlineKind.STOP_CAUSE: task_exit.handle_external_stop,
    DeadlineKind.TASK_RESTART: gang.start_task_if_due,
    DeadlineKind.LEASE: _on_lease_end,
}
_NAME_HANDLERS: Mapping[DeadlineKind, Callable[[StepContext, str], None]] = {
    DeadlineKind.EXCLUSION: node_exclusion.end_exclusion,
    DeadlineKind.GROUP: _on_group_timeout,
}
_JOB_HANDLERS: Mapping[DeadlineKind, Callable[[StepContext], None]] = {
    DeadlineKind.ALLOCATION: _on_allocation_timeout,
    DeadlineKind.JOB: partial(_on_job_timeout, DeadlineKind.JOB),
    DeadlineKind.GANG_PATIENCE: gang.release_partial_gang,
    DeadlineKind.GANG_PAUSE: gang.request_again,
    DeadlineKind.GANG_WAIT: gang.on_wait_end,
    DeadlineKind.SHRINK_AFTER: gang.on_wait_end,
    DeadlineKind.GANG_SOON: gang.on_wait_end,
    DeadlineKind.ROOT_CAUSE: failure_handling.decide_on_suspects,
    DeadlineKind.RESTART: session_restart.on_delay_end,
    DeadlineKind.STOP_LIMIT: task_attempts.kill_remaining,
    DeadlineKind.FORCE_LIMIT: _on_kill_timeout,
}
