"""What may happen next: roles become ready or never will, groups run out of time, the job has succeeded."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import failures
from tony.core.policies import start_order, success
from tony.core.state import RoleState
from tony.core.steps import containers, elastic, ending, failing, gang, nodes
from tony.core.tables import TaskMove
from tony.core.turn import Turn
from tony.model.report import FailureClass
from tony.model.states import JobState, RoleKind


def advance(turn: Turn) -> None:
    """After anything that a role may wait for: readies roles, forms the gang, ends a job that has succeeded."""
    state = turn.state
    if not state.active:
        return
    ready = list(start_order.newly_ready(state.roles))
    for role in ready:
        _ready(turn, role)
    if ready:
        elastic.begin(turn)
    gang.form(turn)
    won = success.judge(state)
    if won:
        ending.finish(turn, JobState.SUCCEEDED, None, won.reason)
    elif success.all_failed(state):
        failing.of_all(turn)


def _ready(turn: Turn, role: RoleState) -> None:
    state = turn.state
    role.ready = True
    for task in role.tasks:
        held = containers.held_by(state, task)
        if held and not held.given_back and not nodes.is_avoided(state, task):
            state.move_task(task, TaskMove.RENEW, turn.now)
            containers.expect_registration(turn, task)
            turn.ask(act.Renew(task=task.id, session=state.session))
        else:
            containers.request(turn, task, TaskMove.REQUEST)
            if held and held.given_back:  # no program lives in it: the task need not wait for its end
                containers.detach(state, held)
            elif held:
                nodes.leave(turn, held)
    containers.settle_demand(turn, role)


def role_over(turn: Turn, role: RoleState) -> None:
    """Every task of a role is over."""
    look_for_blocked(turn)
    if turn.state.active:
        limit_groups(turn, role.name)


def look_for_blocked(turn: Turn) -> None:
    """Says which roles can never start any more. One of them is enough to end the job, unless it is a sidecar."""
    for role, reason in list(start_order.newly_blocked(turn.state.roles)):
        role.blocked = True
        failure = failures.of_job(turn.state, "unsatisfiable", FailureClass.USER, reason, turn.now)
        if role.kind is not RoleKind.SIDECAR:
            failing.of_job(turn, failure)
            return
        turn.ask(act.Verdict(failure=failure, decision="tolerate", reason=f"{role.name} is a sidecar"))


def limit_groups(turn: Turn, over: str | None = None) -> None:
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
