"""Actions for an executor that (re)connects. Derived from the state; repeating them is harmless."""

from __future__ import annotations

from tony.core import actions as act
from tony.core.state import State, Task
from tony.model.states import JobState, TaskState


def reattach_actions(state: State, container: str, incarnation: str) -> list[act.Action]:
    """Return the actions for the executor of that incarnation in a container; earlier messages may have been lost."""
    held = state.containers[container]
    if held.is_released or held.task is None:
        return [act.Release(container=container)]
    task = state.tasks[held.task]
    if task.state is TaskState.RUNNING:
        return [_start(state, task)]
    if task.state is TaskState.STOPPING:
        spec = state.spec
        grace_of = spec.restart_grace_of if state.job is JobState.RESTARTING else spec.stop_grace_of
        stop = act.Stop(task=task.id, session=task.session, try_=task.try_, grace=grace_of(task.id.role))
        # The Start itself may have been lost: after a Stop it starts nothing, but makes the executor report the exit.
        return [stop, _start(state, task)]
    if task.state is TaskState.STARTING and task.incarnation == incarnation:
        return [act.Renew(task=task.id, session=state.session)]
    return []


def _start(state: State, task: Task) -> act.Start:
    variables = state.collect_variables(task.id.role)
    return act.Start(task=task.id, session=task.session, try_=task.try_, version=task.version, variables=variables)
