"""Containers on a node that the cluster has given up: their end is not confirmed, and programs there may keep running.

Such a program counts as running until it reports its end, that end is proved, or its executor must have stopped it: an
executor without contact to the AM stops its program when its lease expires. Only then is it replaced.
"""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies.failure_policy import compute_latest_exit_time
from tony.core.reasons import ProgramUnreachable
from tony.core.state import ContainerIntent, GrantedContainer, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, task_exit
from tony.model.states import TaskState


def handle_unconfirmed_exit(ctx: StepContext, container: GrantedContainer, event: ev.ContainerEnded) -> bool:
    """Return True if the program in a container must be waited for, after doing what can be done now."""
    state = ctx.state
    if container.is_end_unconfirmed:
        return event.is_unconfirmed  # a repetition
    task = state.tasks[container.task] if container.task else None
    if not event.is_unconfirmed or task is None or not task.living or task.external_exit is not None:
        return False
    until = compute_latest_exit_time(event.contact, event.lease, state.spec.stop_grace_of(task.id.role))
    if until <= ctx.now:
        return False
    container.is_end_unconfirmed = True
    state.timers.set(Deadline(DeadlineKind.LEASE, task.id), until)
    if container.intent is ContainerIntent.HELD:
        containers.mark_released(ctx, container)
    task.container_end = event
    lost = failure_builders.failure_from_loss(state, task, event.cause, ctx.now, blameless=event.blameless)
    if task.state is TaskState.RUNNING and not task.is_classified:
        task_exit.on_failure(ctx, task, lost)
    if task.living:
        task.note = ProgramUnreachable(failure=lost, seconds=round(until - ctx.now))
    return True


def on_exit_report(ctx: StepContext, task: Task) -> None:
    """Forget the container of a program that reported its exit: the container's own end will not be reported."""
    held = containers.find_container(ctx.state, task)
    if held and held.is_end_unconfirmed:
        containers.remove_ended(ctx, held)
        if held.intent is ContainerIntent.RELEASED:
            ctx.request(act.Release(container=held.id))


def build_container_ended(ctx: StepContext, task: Task) -> ev.ContainerEnded | None:
    """Return the event that stands in for the proof, once the lease of the executor has expired."""
    held = containers.find_container(ctx.state, task)
    if held is None or task.container_end is None:
        return None
    cause, silent = task.container_end.cause, ev.EndConfirmation.SILENT
    return ev.ContainerEnded(container=held.id, cause=cause, blameless=True, confirmation=silent)
