"""Hosts on which tasks failed again and again get no further container for a while, and no session begins there."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.policies import node_exclusion as policy
from tony.core.state import Container, ContainerIntent, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, elastic_start
from tony.core.transitions import TaskMove
from tony.model.job_report import Failure
from tony.model.states import TaskState

_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def blame(turn: StepContext, failure: Failure) -> None:
    """Counts a failure against its host. To be called once for each."""
    state = turn.state
    host = failure.host
    if host is None or not state.chooses or not policy.counts(failure):
        return
    times = [*policy.recent(state.hosts.get(host, ()), turn.now), turn.now]
    state.hosts[host] = times
    if host not in state.excluded and policy.is_bad(times, turn.now):
        state.excluded.add(host)
        state.timers.set(f"include:{host}", turn.now + policy.LENGTH)
        turn.ask(act.Exclude(host=host))


def forgive(turn: StepContext, host: str) -> None:
    """Its time is over."""
    turn.state.excluded.discard(host)
    turn.state.hosts.pop(host, None)
    turn.ask(act.Include(host=host))


def excluded(turn: StepContext, event: ev.Excluded) -> None:
    """The scheduler leaves hosts out: whoever waits there for the others to start goes elsewhere.

    It says so in answer to `Exclude`, and a session may have opened meanwhile.
    """
    state = turn.state
    state.avoided = set(event.hosts)
    if not state.active:
        return
    moved = [(held, task) for held in state.containers.values() if (task := _waits_there(state, held))]
    for container, task in moved:
        state.timers.cancel(f"registration:{task.name}")
        containers.request(turn, task, TaskMove.REPLACE)  # first, or the scheduler would be told to want one less
        leave(turn, container)
    if moved:
        elastic_start.settle(turn)


def is_avoided(state: State, task: Task) -> bool:
    """Whether a task had better go elsewhere, for nothing of the job is to begin where it is."""
    held = containers.held_by(state, task)
    return held is not None and held.host in state.avoided


def leave(turn: StepContext, container: Container) -> None:
    """Gives up a container on a host that is left out; no program runs in it."""
    containers.end_by_force(turn, container, f"nothing more is wanted on {container.host}: tasks failed there")
    containers.detach(turn.state, container)


def _waits_there(state: State, container: Container) -> Task | None:
    """The task in a container that is to be left, if it has not started and does not start again alone."""
    if container.host not in state.avoided or container.hold is not ContainerIntent.HELD or container.task is None:
        return None
    task = state.tasks[container.task]
    return task if task.state in _NOT_STARTED and task.again is None else None
