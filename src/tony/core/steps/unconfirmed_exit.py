"""Containers whose node the cluster has given up: nobody has seen them end, and what runs there may live on.

A program there counts as living until it reports its end, somebody proves it, or its executor must have ended it: an
executor that has no contact to us stops its program when its lease is over. Only then another one takes its place.
"""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_text
from tony.core.policies.unconfirmed_exit import latest_exit_time
from tony.core.state import Container, ContainerIntent, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, task_exit
from tony.model.job_report import FailureClass
from tony.model.states import TaskState
from tony.units import format_duration


def wait(turn: StepContext, container: Container, event: ev.ContainerEnded) -> bool:
    """Whether the program in a container has to be waited for. If so, all that can be done now is done."""
    state = turn.state
    if container.presumed:
        return event.presumed  # it was said before
    task = state.tasks[container.task] if container.task else None
    if not event.presumed or task is None or not task.living or task.outside is not None:
        return False
    until = latest_exit_time(event.contact, event.lease, state.spec.stop_grace_of(task.id.role))
    if until <= turn.now:
        return False
    container.presumed = True
    state.timers.set(f"lease:{task.name}", until)
    if container.hold is ContainerIntent.HELD:
        containers.disown(turn, container)
    task.gone_why = event.cause
    reason = f"{task.id} was lost: {event.cause}"
    if task.state is TaskState.RUNNING and not task.judged:
        kind = FailureClass.INFRASTRUCTURE
        task_exit.fault(
            turn,
            task,
            failure_text.failure_from_task(state, task, "lost", kind, reason, turn.now, blameless=event.blameless),
        )
    if task.living:
        task.note = f"{reason}; its program may live there for another {format_duration(round(until - turn.now))}"
    return True


def reported(turn: StepContext, task: Task) -> None:
    """Its program has told its end: so may the executor, and nobody will tell the container's."""
    held = containers.held_by(turn.state, task)
    if held and held.presumed:
        containers.forget(turn, held)
        if held.hold is ContainerIntent.RELEASED:
            turn.ask(act.Release(container=held.id))


def ended(turn: StepContext, task: Task) -> ev.ContainerEnded | None:
    """Its executor's lease is over: nothing can live there. What a proof of that would have said."""
    held = containers.held_by(turn.state, task)
    if held is None:
        return None
    return ev.ContainerEnded(container=held.id, cause=task.gone_why, blameless=True, silent=True)
