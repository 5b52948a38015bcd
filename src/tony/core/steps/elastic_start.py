"""An elastic gang starts without some of its tasks when it has waited for them long enough.

A task that is left out stays `pending` for this session, and no container is requested for it. The next session
requests all again. Programs see only the tasks that take part, counted from 0 (`model/job_spec.py`).
"""

from __future__ import annotations

from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.core.reason_sentences import describe_note
from tony.core.reasons import LeftOutForLackOfContainers, LeftOutForOtherRoles
from tony.core.state import RoleState
from tony.core.step_context import StepContext
from tony.core.steps import containers, gang_start
from tony.core.transitions import TaskMove

#: Seconds to wait for more containers once the wait has expired: containers are often granted together.
SETTLE_SECONDS = 1.0
#: Seconds between releasing containers and releasing more, if other roles still lack room.
RELEASE_INTERVAL_SECONDS = 10.0


def start_wait(ctx: StepContext) -> None:
    """Start the time in which all containers of the roles that became ready may be granted."""
    deadline, limit = gang_size_policy.wait(ctx.state)
    if limit is not None and gang_size_policy.is_elastic(ctx.state):
        ctx.state.timers.set(deadline, ctx.now + limit)


def on_granted(ctx: StepContext, event: ev.Granted) -> None:
    """Handle a granted container: there may be enough now."""
    containers.on_granted(ctx, event)
    start_soon_if_enough(ctx)


def start_soon_if_enough(ctx: StepContext) -> None:
    """Have the gang start soon if it has enough containers and its wait has expired."""
    state = ctx.state
    if (
        gang_size_policy.wait(state)[0] not in state.timers
        and state.active
        and not state.pausing
        and gang_size_policy.has_enough(state)
    ):
        state.timers.set(gang_size_policy.SOON, ctx.now + SETTLE_SECONDS)


def on_wait_end(ctx: StepContext) -> None:
    """Start without the missing tasks. Roles above their minimum release containers if others are below theirs."""
    state = ctx.state
    deadline, limit = gang_size_policy.wait(state)
    start_with_fewer(ctx, limit or 0, deadline.kind.setting)
    roles = gang_size_policy.find_forming_roles(state)
    lacking = sum(max(0, -gang_size_policy.count_surplus(role)) for role in roles)
    if not lacking or limit is None or not gang_size_policy.is_elastic(state) or state.pausing:
        return
    for role in roles:
        spare = min(lacking, gang_size_policy.count_surplus(role)) if role.spec.min_instances is not None else 0
        if spare > 0:
            lacking -= spare
            _release_tasks(ctx, role, spare)
            state.timers.set(gang_size_policy.SOON, ctx.now + RELEASE_INTERVAL_SECONDS)
    state.chief = state.find_first_chief()


def _release_tasks(ctx: StepContext, role: RoleState, count: int) -> None:
    """Leave out the last `count` tasks of a role that have a container; nothing runs in it yet."""
    state = ctx.state
    with_container = [task for task in reversed(role.members) if task.container]
    for task in with_container[:count]:
        state.timers.cancel(Deadline(DeadlineKind.REGISTRATION, task.id))
        state.move_task(task, TaskMove.RESET, ctx.now)
        role.left_out.add(task.id.index)
        task.note = LeftOutForOtherRoles(session=state.session, minimum=role.spec.min_instances or 0)
        container = state.containers[task.container or ""]
        containers.kill(ctx, container, f"{task.id} is {describe_note(task.note)}")
        containers.detach(state, container)


def start_with_fewer(ctx: StepContext, limit: float, setting: str) -> bool:
    """Start without the tasks that have no container, if possible; return True if so.

    Args:
        limit: seconds in which no container was granted for them.
        setting: the setting of the limit.
    """
    state = ctx.state
    if not gang_size_policy.has_enough(state):
        return False
    missing = [role for role in gang_size_policy.find_forming_roles(state) if len(role.waiting)]
    for role in missing:
        _leave_out(ctx, role, limit, setting)
    if not missing:
        return False
    state.chief = state.find_first_chief()
    if not containers.is_incomplete(state):
        containers.clear_deadlines(ctx)
    gang_start.start_gang_if_complete(ctx)
    return True


def _leave_out(ctx: StepContext, role: RoleState, limit: float, setting: str) -> None:
    state = ctx.state
    for index in role.waiting:
        task = role.tasks[index]
        state.move_task(task, TaskMove.RESET, ctx.now)
        role.left_out.add(index)
        task.note = LeftOutForLackOfContainers(session=state.session, limit=limit, setting=setting)
    containers.update_demand(ctx, role)
