"""Containers: which task gets one, and how they are released and killed."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.state import ContainerIntent, GrantedContainer, RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import container_demand
from tony.core.transitions import JobMove, TaskMove
from tony.model.states import JobState, TaskState

#: Containers per task and session that may end before the program was started: they are replaced, uncounted.
MAX_LAUNCHES = 3
_JOB = Deadline(DeadlineKind.JOB)

# --- granted ----------------------------------------------------------------------------------------------------------


def on_granted(ctx: StepContext, event: ev.Granted) -> None:
    """Give a container to the first task that waits for one; release it if there is none."""
    state = ctx.state
    if event.container in state.containers or event.container in state.ended_ids:
        return
    if state.job.ended:
        state.ended_ids.add(event.container)
        ctx.request(act.Release(container=event.container))
        return
    role = state.roles.get(event.role)
    memory = role.memory if role else 0
    is_too_small = event.memory is not None and event.memory < memory  # granted before more was requested
    memory = event.memory if event.memory is not None and is_too_small else memory
    container = GrantedContainer(event.container, event.role, event.host, since=ctx.now, memory=memory)
    state.containers[container.id] = container
    if state.reconciling:
        state.found.add(container.id)
    is_needed = role is not None and bool(role.waiting) and not state.pausing and not is_too_small
    index = role.waiting.pop(0) if role and is_needed else None
    if role is None or index is None:
        release(ctx, container)
        return
    if state.job is JobState.QUEUED:
        state.move_job(JobMove.ADMIT)
    if state.spec.timeouts.job and state.session == 1 and _JOB not in state.timers:
        state.timers.set(_JOB, ctx.now + state.spec.timeouts.job)
    _place(ctx, role, role.tasks[index], container)
    if container_demand.lacks_containers(role) or container_demand.is_incomplete(state):
        container_demand.start_gang_timeout(ctx)
    else:
        container_demand.clear_deadlines(ctx)


def _place(ctx: StepContext, role: RoleState, task: Task, container: GrantedContainer) -> None:
    container.task, task.container, task.host = task.id, container.id, container.host
    task.memory = container.memory
    role.held += 1
    task.incarnation = task.executor_pid = None
    if task.state is TaskState.REQUESTED:
        ctx.state.move_task(task, TaskMove.PLACE, ctx.now)
        start_registration_timeout(ctx, task)
    else:  # granted ahead of the next session, which will renew it
        task.launches += 1
    session = ctx.state.session
    ctx.request(act.Launch(container=container.id, task=task.id, session=session, memory=container.memory))


def start_registration_timeout(ctx: StepContext, task: Task) -> None:
    """Start the time in which the executor of a task must register."""
    limit = ctx.state.spec.timeouts.registration
    if limit:
        ctx.state.timers.set(Deadline(DeadlineKind.REGISTRATION, task.id), ctx.now + limit)


# --- released ---------------------------------------------------------------------------------------------------------


def find_container(state: State, task: Task) -> GrantedContainer | None:
    """Return the container of a task, as long as it has not ended."""
    return state.containers[task.container] if task.container else None


def release(ctx: StepContext, container: GrantedContainer) -> None:
    """Release a container, once: its executor is asked to exit."""
    if container.intent is ContainerIntent.HELD:
        mark_released(ctx, container)
        ctx.request(act.Release(container=container.id))


def mark_released(ctx: StepContext, container: GrantedContainer) -> None:
    """Stop counting on a held container; if its executor reconnects, it is asked to exit."""
    container.intent = ContainerIntent.RELEASED
    _lower_held(ctx, container)


def release_all(ctx: StepContext, role: RoleState) -> None:
    """Release the containers of a role whose tasks run no program."""
    for task in role.tasks:
        held = find_container(ctx.state, task)
        if held:
            release(ctx, held)


def kill(ctx: StepContext, container: GrantedContainer, reason: str) -> None:
    """Kill a container, whatever runs in it, once."""
    before, container.intent = container.intent, ContainerIntent.KILLED
    if before is ContainerIntent.HELD:
        _lower_held(ctx, container)
    if before is not ContainerIntent.KILLED:
        ctx.request(act.Kill(container=container.id, reason=reason))


def discard(ctx: StepContext, container: GrantedContainer, reason: str) -> None:
    """Kill a container in which no program runs, and separate it from its task."""
    kill(ctx, container, reason)
    detach(ctx.state, container)


def _lower_held(ctx: StepContext, container: GrantedContainer) -> None:
    role = ctx.state.roles.get(container.role)
    if role:
        role.held -= container.task is not None
        container_demand.update_demand(ctx, role)


def remove_ended(ctx: StepContext, container: GrantedContainer) -> Task | None:
    """Remove a container that has ended; return the task that was in it. Does not update the demand."""
    state = ctx.state
    del state.containers[container.id]
    state.ended_ids.add(container.id)
    if role := state.roles.get(container.role):
        role.used += ctx.now - container.since
        role.used_memory += (ctx.now - container.since) * container.memory
    if container.intent is ContainerIntent.HELD:
        state.roles[container.role].held -= 1
    return detach(state, container)


def detach(state: State, container: GrantedContainer) -> Task | None:
    """Separate a container from its task; return that task."""
    task = state.tasks[container.task] if container.task else None
    if task:
        container.task = task.container = task.incarnation = task.executor_pid = None
    return task
