"""Readiness of roles: they become ready or blocked, groups time out, the job succeeds."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import memory_policy, outcome_policy, start_order
from tony.core.state import RoleState
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, failure_handling, gang, job_finish, node_exclusion
from tony.core.transitions import TaskMove
from tony.model.failure import FailureCause, FailureClass, MessageFacts
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState


def advance(ctx: StepContext) -> None:
    """Mark roles ready, start the gang, end a job that has succeeded. Call it when a role's condition may hold now."""
    state = ctx.state
    if not state.active:
        return
    ready = list(start_order.find_newly_ready(state.roles))
    for role in ready:
        _mark_ready(ctx, role)
    if ready:
        gang.start_wait(ctx)
    gang.start_if_complete(ctx)
    won = outcome_policy.find_success(state)
    if won:
        job_finish.finish(ctx, JobState.SUCCEEDED, won)
    elif outcome_policy.has_all_failed(state) and not state.suspects:
        failure_handling.fail_all_tasks(ctx)


def _mark_ready(ctx: StepContext, role: RoleState) -> None:
    state = ctx.state
    role.ready = True
    for task in role.tasks:
        held = containers.find_container(state, task)
        is_too_small = memory_policy.is_too_small(state, task)
        if held and not held.is_released and not node_exclusion.is_avoided(state, task) and not is_too_small:
            state.move_task(task, TaskMove.RENEW, ctx.now)
            containers.start_registration_timeout(ctx, task)
            ctx.request(act.Renew(task=task.id, session=state.session))
        else:
            container_demand.request(ctx, task, TaskMove.REQUEST)
            if held and held.is_released:  # no program runs in it: the task need not wait for its end
                containers.detach(state, held)
            elif held and is_too_small:
                containers.discard(ctx, held, memory_policy.TOO_SMALL)
            elif held:
                node_exclusion.vacate(ctx, held)
    container_demand.update_demand(ctx, role)


def on_role_end(ctx: StepContext, role: RoleState) -> None:
    """Handle that every task of a role has ended."""
    report_blocked(ctx)
    if ctx.state.active:
        start_group_timeouts(ctx, role.name)


def report_blocked(ctx: StepContext) -> None:
    """Report the roles that can never start. One of them is enough to fail the job, unless it is a sidecar."""
    for role, reason in list(start_order.find_newly_blocked(ctx.state.roles)):
        role.blocked = True
        facts, kind = MessageFacts(message=reason), FailureClass.USER
        failure = failure_builders.failure_from_job(ctx.state, FailureCause.UNSATISFIABLE, kind, facts, ctx.now)
        if role.kind is not RoleKind.SIDECAR:
            failure_handling.fail_job(ctx, failure)
            return
        ctx.request(
            act.ReportFailure(failure=failure, decision=ev.FailureResponse.TOLERATE, reason=f"{role.name} is a sidecar")
        )


def start_group_timeouts(ctx: StepContext, ended_role: str | None = None) -> None:
    """Start the `timeout_after` of roles whose group is done, now or before this session.

    Args:
        ended_role: the role that has just ended; None at the start of a session.
    """
    state = ctx.state
    for role in state.roles.values():
        rule = role.spec.timeout_after
        if rule and not role.finished and role.ended < role.total:
            members = state.spec.groups.get(rule.group, ())
            if (ended_role is None or ended_role in members) and start_order.is_group_done(state.roles, members):
                state.timers.set(Deadline(DeadlineKind.GROUP, role.name), ctx.now + rule.limit)
