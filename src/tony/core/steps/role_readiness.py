"""What may happen next: roles become ready or never will, groups run out of time, the job has succeeded."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import failure_text
from tony.core.policies import start_order, success_policy
from tony.core.state import RoleState
from tony.core.step_context import StepContext
from tony.core.steps import containers, elastic_start, failure_handling, gang_start, job_finish, node_exclusion
from tony.core.transitions import TaskMove
from tony.model.job_report import FailureClass
from tony.model.states import JobState, RoleKind


def advance(turn: StepContext) -> None:
    """After anything that a role may wait for: readies roles, forms the gang, ends a job that has succeeded."""
    state = turn.state
    if not state.active:
        return
    ready = list(start_order.newly_ready(state.roles))
    for role in ready:
        _ready(turn, role)
    if ready:
        elastic_start.begin(turn)
    gang_start.form(turn)
    won = success_policy.judge(state)
    if won:
        job_finish.finish(turn, JobState.SUCCEEDED, None, won.reason)
    elif success_policy.all_failed(state):
        failure_handling.of_all(turn)


def _ready(turn: StepContext, role: RoleState) -> None:
    state = turn.state
    role.ready = True
    for task in role.tasks:
        held = containers.held_by(state, task)
        if held and not held.given_back and not node_exclusion.is_avoided(state, task):
            state.move_task(task, TaskMove.RENEW, turn.now)
            containers.expect_registration(turn, task)
            turn.ask(act.Renew(task=task.id, session=state.session))
        else:
            containers.request(turn, task, TaskMove.REQUEST)
            if held and held.given_back:  # no program lives in it: the task need not wait for its end
                containers.detach(state, held)
            elif held:
                node_exclusion.leave(turn, held)
    containers.settle_demand(turn, role)


def role_over(turn: StepContext, role: RoleState) -> None:
    """Every task of a role is over."""
    look_for_blocked(turn)
    if turn.state.active:
        limit_groups(turn, role.name)


def look_for_blocked(turn: StepContext) -> None:
    """Says which roles can never start any more. One of them is enough to end the job, unless it is a sidecar."""
    for role, reason in list(start_order.newly_blocked(turn.state.roles)):
        role.blocked = True
        failure = failure_text.failure_from_job(turn.state, "unsatisfiable", FailureClass.USER, reason, turn.now)
        if role.kind is not RoleKind.SIDECAR:
            failure_handling.of_job(turn, failure)
            return
        turn.ask(act.Verdict(failure=failure, decision="tolerate", reason=f"{role.name} is a sidecar"))


def limit_groups(turn: StepContext, over: str | None = None) -> None:
    """Begins the time that roles may go on after a group: it is done now, or was before this session.

    Args:
        over: the role that is over since now; None at a session's beginning.
    """
    state = turn.state
    for role in state.roles.values():
        rule = role.spec.timeout_after
        if rule and not role.finished and role.ended < role.total:
            members = state.spec.groups.get(rule.group, ())
            if (over is None or over in members) and start_order.group_done(state.roles, members):
                state.timers.set(f"group:{role.name}", turn.now + rule.limit)
