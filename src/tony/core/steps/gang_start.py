"""The gang: nobody starts before everybody whom the job waits for has registered."""

from __future__ import annotations

from collections.abc import Iterable

from tony.core import actions as act
from tony.core import events as ev
from tony.core.policies import gang_size_policy
from tony.core.state import RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import task_attempts
from tony.core.transitions import TaskMove
from tony.model.cluster_spec import ClusterSpec
from tony.model.ids import TaskId
from tony.model.states import DistributedMode, RoleKind, TaskState


def is_current_executor(state: State, task: TaskId, container: str, incarnation: str) -> bool:
    """Whether an executor that says it is `task` in `container` is the one that was launched there."""
    held = state.containers.get(container)
    known = state.tasks.get(task)
    return bool(held and known and held.task == task and known.incarnation in (None, incarnation))


def registered(turn: StepContext, event: ev.Registered) -> None:
    """An executor is ready for a session. One that is ready for an older one is told of the present one."""
    state = turn.state
    if not is_current_executor(state, event.task, event.container, event.incarnation):
        state.refused += 1
        return
    task = state.tasks[event.task]
    task.incarnation, task.executor_pid, task.listens = event.incarnation, event.pid, event.listens
    if event.session > state.session or not state.active or task.state is not TaskState.STARTING:
        return
    if event.session < state.session:
        turn.ask(act.Renew(task=task.id, session=state.session))
        return
    task.address, task.tb_port = event.address, event.tb_port
    state.timers.cancel(f"registration:{task.name}")
    state.move_task(task, TaskMove.REGISTER, turn.now)
    role = state.roles[task.id.role]
    if task.again is not None:
        go_on(turn, task)
    elif state.spec.distributed_mode is DistributedMode.FCFS or role.kind is RoleKind.SETUP:
        task_attempts.start(turn, [task], 0)
    elif role.registered == role.total or role.kind is RoleKind.SIDECAR:
        form(turn)


def go_on(turn: StepContext, task: Task) -> None:
    """A task that starts again alone does so when it is ready and its back-off is over."""
    if task.state is TaskState.REGISTERED and task.again is not None and task.again <= turn.now:
        turn.state.timers.cancel(f"again:{task.name}")
        task_attempts.start(turn, [task], task.version)


def form(turn: StepContext) -> None:
    """Publishes and starts if every task of every ready role that is waited for has registered."""
    state = turn.state
    if state.spec.distributed_mode is DistributedMode.FCFS:
        return
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    ready = [role for role in ready if role.kind is not RoleKind.SETUP]  # they start each by itself
    gang = [role for role in ready if role.kind is not RoleKind.SIDECAR or role.registered == role.total]
    if any(role.registered < role.total for role in gang):
        return
    waiting = [role.tasks[index] for role in ready if role.arrived for index in sorted(role.arrived)]
    waiting = [task for task in waiting if task.again is None]
    new = [role for role in gang if not role.version and role.counts[TaskState.REGISTERED]]
    if new:
        state.version += 1
        for role in new:
            role.version = state.version
        for name in gang_size_policy.TIMERS:
            state.timers.cancel(name)
        state.specs[state.version] = spec = _cluster_spec(state, gang)
        turn.ask(act.Publish(spec=spec))
    if waiting and state.version:
        task_attempts.start(turn, waiting, state.version)


def _cluster_spec(state: State, gang: Iterable[RoleState]) -> ClusterSpec:
    here = (TaskState.REGISTERED, TaskState.RUNNING)
    return ClusterSpec(
        session=state.session,
        version=state.version,
        roles={
            role.name: tuple(task.address or "" for task in role.members)
            for role in gang
            if role.total and sum(role.counts[s] for s in here) == role.total
        },
        absent={role.name: tuple(sorted(role.left_out)) for role in state.roles.values() if role.left_out},
    )
