"""Hosts on which tasks failed repeatedly get no further container for a while, and no session begins there."""

from __future__ import annotations

from collections.abc import Iterable

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.state import ContainerIntent, GrantedContainer, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, gang
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.states import TaskState

#: Failures on one host within the window after which it is excluded.
MAX_HOST_FAILURES = 2
#: Length of that window in seconds.
WINDOW_SECONDS = 3600.0
#: Seconds that a host is excluded.
EXCLUSION_SECONDS = 3600.0
_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def _may_be_host_failure(failure: Failure) -> bool:
    """Return True if the host may have caused a failure: it ran there, and neither a user nor the cluster ended it."""
    taken_away = failure.blameless and failure.cause is FailureCause.LOST
    return failure.host is not None and failure.failure_class is not FailureClass.KILLED and not taken_away


def _select_recent(times: Iterable[float], now: float) -> list[float]:
    """Return the failure times that still count."""
    return [at for at in times if at > now - WINDOW_SECONDS]


def _is_bad(times: Iterable[float], now: float) -> bool:
    """Return True if a host with failures at these times is to be excluded."""
    return len(_select_recent(times, now)) >= MAX_HOST_FAILURES


def count_failure(ctx: StepContext, failure: Failure) -> None:
    """Count a failure against its host. Call it once for each failure."""
    if failure.host is not None and _may_be_host_failure(failure):
        count_host_failure(ctx, failure.host)


def count_host_failure(ctx: StepContext, host: str) -> None:
    """Count a failure that a host may have caused, such as that of an executor to start."""
    state = ctx.state
    if not state.chooses:
        return
    times = [*_select_recent(state.hosts.get(host, ()), ctx.now), ctx.now]
    state.hosts[host] = times
    if host not in state.excluded and _is_bad(times, ctx.now):
        state.excluded.add(host)
        state.timers.set(Deadline(DeadlineKind.EXCLUSION, host), ctx.now + EXCLUSION_SECONDS)
        ctx.request(act.Exclude(host=host))


def end_exclusion(ctx: StepContext, host: str) -> None:
    """End the exclusion of a host."""
    ctx.state.excluded.discard(host)
    ctx.state.hosts.pop(host, None)
    ctx.request(act.Include(host=host))


def on_excluded(ctx: StepContext, event: ev.Excluded) -> None:
    """Move tasks that wait for the others to start off the hosts that the scheduler now excludes.

    This is the scheduler's answer to `Exclude`; a session may have opened meanwhile.
    """
    state = ctx.state
    state.avoided = set(event.hosts)
    if not state.active:
        return
    moved = [(held, task) for held in state.containers.values() if (task := _find_task_to_move(state, held))]
    for container, task in moved:
        container_demand.request_other(ctx, task)  # first, or the demand would be lowered by one meanwhile
        vacate(ctx, container)
    if moved:
        gang.start_soon_if_enough(ctx)


def is_avoided(state: State, task: Task) -> bool:
    """Return True if the task's container is on a host where nothing of the job is to start."""
    held = containers.find_container(state, task)
    return held is not None and held.host in state.avoided


def vacate(ctx: StepContext, container: GrantedContainer) -> None:
    """Kill a container on an excluded host; no program runs in it."""
    containers.discard(ctx, container, f"{container.host} is excluded: tasks failed there")


def _find_task_to_move(state: State, container: GrantedContainer) -> Task | None:
    """Return the task of a container to leave, if it has not started and does not restart alone."""
    if container.host not in state.avoided or container.intent is not ContainerIntent.HELD or container.task is None:
        return None
    task = state.tasks[container.task]
    return task if task.state in _NOT_STARTED and task.retry_at is None else None
