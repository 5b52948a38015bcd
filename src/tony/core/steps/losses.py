"""Containers and executors that go away or fall silent."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failures
from tony.core.state import Container, Task
from tony.core.steps import containers, ending, outcomes
from tony.core.tables import TaskMove
from tony.core.turn import Turn
from tony.model.report import FailureClass
from tony.model.states import TaskState

#: A container that goes away before its program was started is replaced, uncharged; so often per task and session.
LAUNCHES = 3
#: Seconds that a task's last report may come after its container's end: the two travel on different ways.
REPORT_WAIT = 2.0


def container_ended(turn: Turn, event: ev.ContainerEnded) -> None:
    """A container is gone, and everything in it: the proof that its program cannot live."""
    state = turn.state
    container = state.containers.get(event.container)
    if container is None:
        return
    task = containers.forget(turn, container)
    if task:
        _lost_its_container(turn, task, container, event)
    role = state.roles.get(container.role)
    if role:
        containers.settle_demand(turn, role)
    ending.end_if_nothing_is_left(turn)


def action_failed(turn: Turn, event: ev.ActionFailed) -> None:
    """What could not be done in a container: it counts as gone."""
    if event.container:
        container_ended(turn, ev.ContainerEnded(container=event.container, cause=event.cause, blameless=True))


def silent(turn: Turn, event: ev.Silent) -> None:
    """An executor is not heard of: its program may live, so its container is ended before anything replaces it."""
    state = turn.state
    task = state.tasks.get(event.task)
    container = containers.held_by(state, task) if task else None
    if task is None or container is None or task.incarnation != event.incarnation or container.doomed:
        return
    reason = f"nothing was heard from {task.id} for {event.silence:.0f} s (heartbeat_timeout)"
    containers.end_by_force(turn, container, reason)
    if task.living and not task.judged:
        failure = failures.of_task(state, task, "silent", FailureClass.INFRASTRUCTURE, reason, turn.now)
        outcomes.fault(turn, task, failure)


def _lost_its_container(turn: Turn, task: Task, container: Container, event: ev.ContainerEnded) -> None:
    state = turn.state
    if task.living:
        task.gone_at, task.gone_why = turn.now, event.cause
        if container.doomed or event.silent or not state.active:
            outcomes.lost(turn, task)
        else:
            state.timers.set(f"report:{task.name}", turn.now + REPORT_WAIT)
    elif task.state in (TaskState.STARTING, TaskState.REGISTERED) and state.active:
        _replace(turn, task, event)


def _replace(turn: Turn, task: Task, event: ev.ContainerEnded) -> None:
    state = turn.state
    state.timers.cancel(f"registration:{task.name}")
    task.launches += 1
    task.note = event.cause
    if task.launches < LAUNCHES:
        containers.request(turn, task, TaskMove.REPLACE)
        return
    reason = f"{task.launches} containers of {task.id} ended before its program was started; the last: {event.cause}"
    failure = failures.of_task(state, task, "launch", FailureClass.INFRASTRUCTURE, reason, turn.now)
    outcomes.fault(turn, task, failure)
