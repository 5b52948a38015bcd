"""The gang: no program starts before all tasks that the job waits for have registered.

An elastic gang starts without some of its tasks when it has waited for them long enough. A task that is left out stays
`pending` for this session, and no container is requested for it; the next session requests all again. Programs see only
the tasks that take part, counted from 0 (`model/job_spec.py`).

A partial gang that gets no more containers for too long releases what it has, and requests them again later: two jobs
that each hold a part of a full queue would wait for each other forever. Only where the scheduler does not grant gangs
as a whole. No restart and no launch is counted for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tony.core import actions as act
from tony.core import events as ev
from tony.core import sentences
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.core.policies.gang_size_policy import compute_gang_pause, has_enough
from tony.core.reasons import GangReleased, LeftOutForLackOfContainers, LeftOutForOtherRoles
from tony.core.sentences import describe_note
from tony.core.state import GrantedContainer, RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, task_attempts
from tony.core.transitions import TaskMove
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.model.states import TaskState
from tony.units import format_duration

#: Seconds to wait for more containers once the wait has expired: containers are often granted together.
SETTLE_SECONDS = 1.0
#: Seconds between releasing containers and releasing more, if other roles still lack room.
RELEASE_INTERVAL_SECONDS = 10.0
_REGISTRATION = (DeadlineKind.REGISTRATION,)
_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def is_current_executor(state: State, task: TaskId, container: str, incarnation: str) -> bool:
    """Return True if an executor that claims to be `task` in `container` is the one that was launched there."""
    held = state.containers.get(container)
    known = state.tasks.get(task)
    return bool(held and known and held.task == task and known.incarnation in (None, incarnation))


def on_registered(ctx: StepContext, event: ev.Registered) -> None:
    """Register an executor for its session; one that registers for an older session gets the current one."""
    state = ctx.state
    if not is_current_executor(state, event.task, event.container, event.incarnation):
        state.refused += 1
        return
    task = state.tasks[event.task]
    task.incarnation, task.executor_pid, task.listens = event.incarnation, event.pid, event.listens
    if event.session > state.session or not state.active or task.state is not TaskState.STARTING:
        return
    if event.session < state.session:
        ctx.request(act.Renew(task=task.id, session=state.session))
        return
    task.address, task.tb_port = event.address, event.tb_port
    state.timers.cancel_all(_REGISTRATION, task.id)
    state.move_task(task, TaskMove.REGISTER, ctx.now)
    role = state.roles[task.id.role]
    if task.retry_at is not None:
        start_task_if_due(ctx, task)
    elif state.spec.distributed_mode is DistributedMode.FCFS or role.kind is RoleKind.SETUP:
        task_attempts.start(ctx, [task], 0)
    elif role.registered == role.total or role.kind is RoleKind.SIDECAR:
        start_if_complete(ctx)


def start_task_if_due(ctx: StepContext, task: Task) -> None:
    """Start a task that restarts alone, once it is registered and its back-off has passed."""
    if task.state is TaskState.REGISTERED and task.retry_at is not None and task.retry_at <= ctx.now:
        ctx.state.timers.cancel(Deadline(DeadlineKind.TASK_RESTART, task.id))
        task_attempts.start(ctx, [task], task.version)


def start_if_complete(ctx: StepContext) -> None:
    """Publish the cluster spec and start, if every task of every ready role that is waited for has registered."""
    state = ctx.state
    if state.spec.distributed_mode is DistributedMode.FCFS:
        return
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    ready = [role for role in ready if role.kind is not RoleKind.SETUP]  # they start each by itself
    gang = [role for role in ready if role.kind is not RoleKind.SIDECAR or role.registered == role.total]
    if any(role.registered < role.total for role in gang):
        return
    waiting = [role.tasks[index] for role in ready if role.arrived for index in sorted(role.arrived)]
    waiting = [task for task in waiting if task.retry_at is None]
    new = [role for role in gang if not role.version and role.counts[TaskState.REGISTERED]]
    if new:
        state.version += 1
        for role in new:
            role.version = state.version
        for deadline in gang_size_policy.DEADLINES:
            state.timers.cancel(deadline)
        state.specs[state.version] = spec = _build_cluster_spec(state, gang)
        ctx.request(act.Publish(spec=spec))
    if waiting and state.version:
        task_attempts.start(ctx, waiting, state.version)


def _build_cluster_spec(state: State, gang: Iterable[RoleState]) -> ClusterSpec:
    registered = (TaskState.REGISTERED, TaskState.RUNNING)
    return ClusterSpec(
        session=state.session,
        version=state.version,
        roles={
            role.name: tuple(task.address or "" for task in role.members)
            for role in gang
            if role.total and sum(role.counts[s] for s in registered) == role.total
        },
        absent={role.name: tuple(sorted(role.left_out)) for role in state.roles.values() if role.left_out},
    )


def start_wait(ctx: StepContext) -> None:
    """Start the time in which all containers of the roles that became ready may be granted."""
    deadline, limit = gang_size_policy.choose_wait(ctx.state)
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
        gang_size_policy.choose_wait(state)[0] not in state.timers
        and state.active
        and not state.pausing
        and gang_size_policy.has_enough(state)
    ):
        state.timers.set(gang_size_policy.SOON, ctx.now + SETTLE_SECONDS)


def on_wait_end(ctx: StepContext) -> None:
    """Start without the missing tasks. Roles above their minimum release containers if others are below theirs."""
    state = ctx.state
    deadline, limit = gang_size_policy.choose_wait(state)
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
        containers.discard(ctx, container, f"{task.id} is {describe_note(task.note)}")


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
    if not container_demand.is_incomplete(state):
        container_demand.clear_deadlines(ctx)
    start_if_complete(ctx)
    return True


def _leave_out(ctx: StepContext, role: RoleState, limit: float, setting: str) -> None:
    state = ctx.state
    for index in list(role.waiting):
        task = role.tasks[index]
        state.move_task(task, TaskMove.RESET, ctx.now)
        role.left_out.add(index)
        task.note = LeftOutForLackOfContainers(session=state.session, limit=limit, setting=setting)
    container_demand.update_demand(ctx, role)


def release_partial_gang(ctx: StepContext) -> None:
    """Release every container in which no program runs, and request none for a while.

    A gang that holds no such container blocks no other job, and keeps waiting. So does one that can start soon.
    """
    state = ctx.state
    if has_enough(state):
        return
    idle = [container for container in state.containers.values() if _is_idle(state, container)]
    if not idle:
        return
    waited = format_duration(state.spec.gang_patience or 0)
    missing = sentences.describe_pending(state)
    reason = f"{missing}; nothing was granted for {waited} (gang_patience), so it is released for other jobs"
    state.release_count += 1
    state.timers.set(Deadline(DeadlineKind.GANG_PAUSE), ctx.now + compute_gang_pause(state.release_count, state.job_id))
    counts = Counter(container.role for container in idle)
    for role in state.roles.values():  # lowered once for all containers, before they are released
        container_demand.set_demand(ctx, role, min(role.demand, role.held - counts[role.name]))
    for container in idle:
        _release_idle(ctx, container, reason)


def _is_idle(state: State, container: GrantedContainer) -> bool:
    task = state.tasks[container.task] if container.task else None
    return task is not None and not container.is_released and not task.living and task.retry_at is None


def _release_idle(ctx: StepContext, container: GrantedContainer, reason: str) -> None:
    state = ctx.state
    assert container.task is not None
    task = state.tasks[container.task]
    if task.state in _NOT_STARTED:
        task.note = GangReleased()
        container_demand.request_other(ctx, task)
    containers.discard(ctx, container, reason)


def request_again(ctx: StepContext) -> None:
    """Request all missing containers once the pause has passed."""
    state = ctx.state
    for role in state.roles.values():
        container_demand.update_demand(ctx, role)
    if container_demand.is_incomplete(state):
        container_demand.start_gang_timeout(ctx)
    start_wait(ctx)
