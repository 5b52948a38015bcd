"""Handles deadlines. A deadline's name is what it limits, followed by `:` and a task, role or host where it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tony.core import events as ev
from tony.core import failures
from tony.core.policies import gang_size_policy
from tony.core.step_context import StepContext
from tony.core.steps import (
    am_attempts,
    container_loss,
    elastic_start,
    failure_handling,
    gang_deadlock,
    gang_start,
    job_finish,
    node_exclusion,
    program_stop,
    role_readiness,
    session_restart,
    task_exit,
    unconfirmed_exit,
)
from tony.model.ids import TaskId
from tony.model.states import JobState, OnTimeout, RoleKind
from tony.units import format_duration


def on_deadline(ctx: StepContext, event: ev.Deadline) -> None:
    """Handle a deadline; one that was moved, cancelled or is early does nothing."""
    if ctx.state.timers.pop_due(event.name, ctx.now) and not am_attempts.postpone(ctx, event.name):
        kind, _, who = event.name.partition(":")
        _HANDLERS[kind](ctx, who)


def _on_task_timeout(kind: str, ctx: StepContext, who: str) -> None:
    task = ctx.state.tasks[TaskId.parse(who)]
    if task.external_exit is not None:
        task_exit.handle_external_stop(ctx, task)
    elif task.container_ended_at is not None:
        task_exit.on_lost(ctx, task)
    elif not task.judged:
        task_exit.on_failure(ctx, task, failures.failure_from_timeout(ctx.state, task, kind, ctx.now))


def _on_report_timeout(ctx: StepContext, who: str) -> None:
    task_exit.on_lost(ctx, ctx.state.tasks[TaskId.parse(who)])


def _on_stop_cause_timeout(ctx: StepContext, who: str) -> None:
    task_exit.handle_external_stop(ctx, ctx.state.tasks[TaskId.parse(who)])


def _on_task_restart_due(ctx: StepContext, who: str) -> None:
    gang_start.start_if_due(ctx, ctx.state.tasks[TaskId.parse(who)])


def _on_exclusion_end(ctx: StepContext, who: str) -> None:
    node_exclusion.end_exclusion(ctx, who)


def _on_lease_end(ctx: StepContext, who: str) -> None:
    end = unconfirmed_exit.build_container_ended(ctx, ctx.state.tasks[TaskId.parse(who)])
    if end:
        container_loss.on_container_ended(ctx, end)


def _on_group_timeout(ctx: StepContext, who: str) -> None:
    role = ctx.state.roles[who]
    rule = role.spec.timeout_after
    if rule is None or not ctx.state.active or role.ended == role.total:
        return
    if rule.on_timeout is OnTimeout.FAIL:
        failure_handling.fail_group(ctx, role, rule)
        return
    if role.kind is RoleKind.TRACKED:
        role.kind = RoleKind.UNTRACKED
    role_readiness.advance(ctx)


def _on_job_timeout(kind: str, ctx: StepContext, who: str) -> None:
    failure_handling.fail_job(ctx, failures.failure_from_job_timeout(ctx.state, kind, ctx.now))


def _on_allocation_timeout(ctx: StepContext, who: str) -> None:
    limit = format_duration(ctx.state.spec.timeouts.allocation or 0)
    if not elastic_start.start_with_fewer(ctx, f"within {limit} (allocation_timeout)"):
        _on_job_timeout("allocation", ctx, who)


def _on_gang_wait_end(ctx: StepContext, who: str) -> None:
    elastic_start.on_wait_end(ctx)


def _on_restart_due(ctx: StepContext, who: str) -> None:
    session_restart.on_delay_end(ctx)


def _on_stop_timeout(ctx: StepContext, who: str) -> None:
    program_stop.kill_remaining(ctx)


def _on_kill_timeout(ctx: StepContext, who: str) -> None:
    program_stop.kill_remaining(ctx)
    if ctx.state.job is JobState.STOPPING:
        job_finish.abandon(ctx)


def _on_gang_timeout(ctx: StepContext, who: str) -> None:
    gang_deadlock.release_partial_gang(ctx)


def _on_gang_pause_end(ctx: StepContext, who: str) -> None:
    gang_deadlock.request_again(ctx)


_HANDLERS: Mapping[str, Callable[[StepContext, str], None]] = {
    "registration": partial(_on_task_timeout, "registration"),
    "startup": partial(_on_task_timeout, "startup"),
    "execution": partial(_on_task_timeout, "execution"),
    "report": _on_report_timeout,
    "word": _on_stop_cause_timeout,
    "again": _on_task_restart_due,
    "include": _on_exclusion_end,
    "lease": _on_lease_end,
    "group": _on_group_timeout,
    "allocation": _on_allocation_timeout,
    "job": partial(_on_job_timeout, "job"),
    "gang-patience": _on_gang_timeout,
    "gang-pause": _on_gang_pause_end,
    gang_size_policy.FIRST: _on_gang_wait_end,
    gang_size_policy.LATER: _on_gang_wait_end,
    gang_size_policy.SOON: _on_gang_wait_end,
    "restart": _on_restart_due,
    "stop-limit": _on_stop_timeout,
    "force-limit": _on_kill_timeout,
}
