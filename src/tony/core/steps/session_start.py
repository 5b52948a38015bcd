"""A session opens: which roles run in it."""

from __future__ import annotations

from tony.core import events as ev
from tony.core.state import RoleState, State
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, role_readiness
from tony.core.transitions import JobMove, TaskMove
from tony.errors import InvalidTransitionError
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState


def on_opened(ctx: StepContext, event: ev.SessionOpened) -> None:
    """Open the session: its roles start afresh, but keep the executors that are still there."""
    state = ctx.state
    if event.session != state.session + 1:
        raise InvalidTransitionError(f"session {event.session} after session {state.session}")
    if state.job is JobState.RESTARTING:
        state.move_job(JobMove.OPEN)
    elif not state.active:
        return
    state.session, state.version, state.restart_due = event.session, 0, False
    state.session_reason = state.restart
    state.started_at = None
    state.specs.clear()
    state.failures.clear()
    state.suspects.clear()
    state.tolerated.clear()
    selected = _select_roles_to_run(state)
    for role in state.roles.values():
        role.finished = role not in selected
        role.waiting.clear()
        if role.finished:
            containers.release_all(ctx, role)
        else:
            _reset(ctx, role)
    state.chief = state.find_first_chief()
    role_readiness.start_group_timeouts(ctx)
    role_readiness.advance(ctx)
    for role in state.roles.values():
        if not role.ready and not state.may_restart:
            # The job has room for one stage after the other only: this one comes later.
            containers.release_all(ctx, role)
        container_demand.update_demand(ctx, role)


def _select_roles_to_run(state: State) -> list[RoleState]:
    """Return the roles to run: one that succeeded stays finished, unless a peer of its cluster spec runs again."""
    roles = [role for role in state.roles.values() if not role.finished]
    undone = [role for role in roles if role.succeeded < role.total]
    versions = {role.version for role in undone if role.version and role.kind is not RoleKind.SIDECAR}
    return [role for role in roles if role in undone or role.version in versions]


def _reset(ctx: StepContext, role: RoleState) -> None:
    role.ready = role.blocked = False
    role.left_out.clear()
    role.version = role.started = role.unstarted = 0
    role.kind = role.spec.kind
    for task in role.tasks:
        if task.state is not TaskState.PENDING:
            ctx.state.move_task(task, TaskMove.RESET, ctx.now)
        task.started = task.is_classified = False
        task.launches = 0
        task.address = task.tb_port = task.pid = task.status = task.ended_at = None
        task.note = None
