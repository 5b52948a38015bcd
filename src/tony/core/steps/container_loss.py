"""Containers and executors that go away or fall silent."""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failure_text
from tony.core.state import Container, ContainerIntent, Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    containers,
    elastic_start,
    gang_start,
    job_finish,
    session_restart,
    task_exit,
    unconfirmed_exit,
)
from tony.core.steps.task_retry import is_bound
from tony.core.transitions import TaskMove
from tony.model.job_report import Failure, FailureClass
from tony.model.states import JobState, TaskState

#: Seconds that a task's last report may come after its container's end: the two travel on different ways.
REPORT_WAIT = 2.0

_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def container_ended(turn: StepContext, event: ev.ContainerEnded) -> None:
    """A container is gone, and everything in it: the proof that its program cannot live."""
    state = turn.state
    container = state.containers.get(event.container)
    if container is None or unconfirmed_exit.wait(turn, container, event):
        return
    task = containers.forget(turn, container)
    if task and event.forced:
        failure_text.refine_cause(state, task, event.cause, over_memory=event.over_memory)
    if task:
        _lost_its_container(turn, task, container, event)
    role = state.roles.get(container.role)
    if role:
        containers.settle_demand(turn, role)
    job_finish.finish_if_idle(turn)


def action_failed(turn: StepContext, event: ev.ActionFailed) -> None:
    """What could not be done in a container: it counts as gone."""
    if event.container:
        container_ended(turn, ev.ContainerEnded(container=event.container, cause=event.cause))


def silent(turn: StepContext, event: ev.Silent) -> None:
    """An executor is not heard of. A program of it may live, so its container is ended before another replaces it."""
    state = turn.state
    task = state.tasks.get(event.task)
    container = containers.held_by(state, task) if task else None
    if task is None or container is None or container.hold is ContainerIntent.KILLED or container.presumed:
        return
    if not gang_start.is_current_executor(state, task.id, event.container or container.id, event.incarnation):
        return
    reason = f"nothing was heard from {task.id} for {event.silence:.0f} s (heartbeat_timeout)"
    if task.state in _NOT_STARTED and state.active:
        _replace(turn, task, reason, container)
        return
    containers.end_by_force(turn, container, reason)
    if task.living and not task.judged:
        failure = _nobodys_fault(turn, task, "silent", reason)
        task_exit.fault(turn, task, failure)


def _lost_its_container(turn: StepContext, task: Task, container: Container, event: ev.ContainerEnded) -> None:
    state = turn.state
    if task.living:
        task.gone_at, task.gone_why = turn.now, event.cause
        task.forced = event.cause if event.forced else ""
        task.over_memory, task.blameless = event.over_memory, event.blameless
        if task.outside is not None:
            task_exit.handle_external_stop(turn, task)
        elif container.hold is ContainerIntent.KILLED or event.silent or not state.active:
            task_exit.lost(turn, task)
        else:
            state.timers.set(f"report:{task.name}", turn.now + REPORT_WAIT)
            if event.blameless:
                state.unexplained.add(task.id)
    elif task.state in _NOT_STARTED and state.active:
        _replace(turn, task, event.cause, counts=not event.blameless)
    if state.job is JobState.RESTARTING:
        session_restart.seek(state, task)


def _nobodys_fault(turn: StepContext, task: Task, cause: str, reason: str) -> Failure:
    of_them = FailureClass.INFRASTRUCTURE
    return failure_text.failure_from_task(turn.state, task, cause, of_them, reason, turn.now, blameless=True)


def _replace(turn: StepContext, task: Task, cause: str, stuck: Container | None = None, *, counts: bool = True) -> None:
    """Another container for a task whose program has not been started: nothing has to be proved before.

    Args:
        counts: it may have been the job's own fault, so it is not tried for ever.
    """
    state = turn.state
    state.timers.cancel(f"registration:{task.name}")
    task.launches += counts
    task.note = cause
    bound = task.again is not None and is_bound(state, task)
    again = task.launches < containers.LAUNCHES and not bound
    if again:  # first, or the scheduler would be told to want one less
        containers.request(turn, task, TaskMove.REPLACE)
    if stuck:
        containers.end_by_force(turn, stuck, cause)
        containers.detach(state, stuck)
    elastic_start.settle(turn)
    if not again:
        reason = f"{task.launches} containers of {task.id} ended before its program was started; the last: {cause}"
        if bound:
            reason = f"{task.id} was to start again alone, and lost its container: {cause}"
        task.again = None
        task_exit.fault(turn, task, _nobodys_fault(turn, task, "lost" if bound else "launch", reason))
