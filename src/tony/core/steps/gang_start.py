"""The gang: no program starts before all tasks that the job waits for have registered."""

from __future__ import annotations

from collections.abc import Iterable

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.core.state import RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import task_attempts
from tony.core.transitions import TaskMove
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.model.states import TaskState

_REGISTRATION = (DeadlineKind.REGISTRATION,)


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
        start_if_due(ctx, task)
    elif state.spec.distributed_mode is DistributedMode.FCFS or role.kind is RoleKind.SETUP:
        task_attempts.start(ctx, [task], 0)
    elif role.registered == role.total or role.kind is RoleKind.SIDECAR:
        start_gang_if_complete(ctx)


def start_if_due(ctx: StepContext, task: Task) -> None:
    """Start a task that restarts alone, once it is registered and its back-off has passed."""
    if task.state is TaskState.REGISTERED and task.retry_at is not None and task.retry_at <= ctx.now:
        ctx.state.timers.cancel(Deadline(DeadlineKind.TASK_RESTART, task.id))
        task_attempts.start(ctx, [task], task.version)


def start_gang_if_complete(ctx: StepContext) -> None:
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
