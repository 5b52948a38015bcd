"""A gang that may go without some of its tasks does so when it has waited for them long enough.

Who is left out stays `pending` for this session, and its container is sought no more. The next session asks for all
again. Programs see those that take part only, counted from 0 (`model/cluster_spec.py`).
"""

from __future__ import annotations

from tony.core import events as ev
from tony.core.policies import gang_size_policy
from tony.core.state import RoleState
from tony.core.step_context import StepContext
from tony.core.steps import containers, gang_start
from tony.core.transitions import TaskMove
from tony.units import format_duration

#: Seconds without another container, when the wait is over and there are enough: containers often come together.
TOGETHER = 1.0
#: Seconds from giving up containers to giving up more, should others still lack room.
ROOM_WAIT = 10.0


def begin(turn: StepContext) -> None:
    """Roles have become ready, or are asked for again: begins the time in which all of their containers may come."""
    name, limit = gang_size_policy.wait(turn.state)
    if limit is not None and gang_size_policy.is_elastic(turn.state):
        turn.state.timers.set(name, turn.now + limit)


def granted(turn: StepContext, event: ev.Granted) -> None:
    """A container; with it there may be enough."""
    containers.granted(turn, event)
    settle(turn)


def settle(turn: StepContext) -> None:
    """After anything that changes who has a container: has the gang go soon, if the others had their time."""
    state = turn.state
    if (
        gang_size_policy.wait(state)[0] not in state.timers
        and state.active
        and not state.pausing
        and gang_size_policy.enough(state)
    ):
        state.timers.set(gang_size_policy.SOON, turn.now + TOGETHER)


def waited(turn: StepContext) -> None:
    """The time is over: goes without the others. If some roles have more than the least and others not all, the former
    make room."""
    state = turn.state
    name, limit = gang_size_policy.wait(state)
    start_with_fewer(turn, f"within {format_duration(limit or 0)} ({name.replace('-', '_')})")
    roles = gang_size_policy.forming(state)
    lacking = sum(max(0, -gang_size_policy.surplus(role)) for role in roles)
    if not lacking or limit is None or not gang_size_policy.is_elastic(state) or state.pausing:
        return
    for role in roles:
        spare = min(lacking, gang_size_policy.surplus(role)) if role.spec.min_instances is not None else 0
        if spare > 0:
            lacking -= spare
            _give_up(turn, role, spare)
            state.timers.set(gang_size_policy.SOON, turn.now + ROOM_WAIT)
    state.chief = state.first_chief()


def _give_up(turn: StepContext, role: RoleState, count: int) -> None:
    """Leaves out so many of a role's last tasks that have a container; nothing runs in it yet."""
    state = turn.state
    why = f"others lacked room to start (min = {role.spec.min_instances})"
    here = [task for task in reversed(role.members) if task.container]
    for task in here[:count]:
        state.timers.cancel(f"registration:{task.name}")
        state.move_task(task, TaskMove.RESET, turn.now)
        role.left_out.add(task.id.index)
        task.note = f"left out of session {state.session}: {why}"
        container = state.containers[task.container or ""]
        containers.end_by_force(turn, container, f"{task.id} is left out of session {state.session}: {why}")
        containers.detach(state, container)


def start_with_fewer(turn: StepContext, why: str) -> bool:
    """Goes without all who have no container, if it can; answers whether it did.

    Args:
        why: in which time, and by which setting, none has come for them.
    """
    state = turn.state
    if not gang_size_policy.enough(state):
        return False
    missing = [role for role in gang_size_policy.forming(state) if len(role.waiting)]
    for role in missing:
        _leave_out(turn, role, why)
    if not missing:
        return False
    state.chief = state.first_chief()
    if not containers.is_incomplete(state):
        containers.complete(turn)
    gang_start.form(turn)
    return True


def _leave_out(turn: StepContext, role: RoleState, why: str) -> None:
    state = turn.state
    for index in role.waiting:
        task = role.tasks[index]
        state.move_task(task, TaskMove.RESET, turn.now)
        role.left_out.add(index)
        task.note = f"left out of session {state.session}: no container {why}"
    containers.settle_demand(turn, role)
