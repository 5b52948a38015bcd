"""A partial gang that gets no more containers for too long releases what it has, and requests them again later.

Two jobs that each hold a part of a full queue would wait for each other forever. Only where the scheduler does not
grant gangs as a whole. No restart and no launch is counted for it.
"""

from __future__ import annotations

from collections import Counter

from tony.core import waiting_sentences
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies.gang_size_policy import compute_gang_pause, has_enough
from tony.core.reasons import GangReleased
from tony.core.state import GrantedContainer, State
from tony.core.step_context import StepContext
from tony.core.steps import containers, elastic_start
from tony.core.transitions import TaskMove
from tony.model.states import TaskState
from tony.units import format_duration

_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def release_partial_gang(ctx: StepContext) -> None:
    """Release every container in which no program runs, and request none for a while.

    A gang that holds no such container blocks no other job, and keeps waiting. So does one that can start soon.
    """
    state = ctx.state
    if has_enough(state):
        return
    idle = [container for container in state.containers.values() if _is_idle(state, container)]
    if not idle:
        return
    waited = format_duration(state.spec.gang_patience or 0)
    missing = waiting_sentences.describe_pending(state)
    reason = f"{missing}; nothing was granted for {waited} (gang_patience), so it is released for other jobs"
    state.release_count += 1
    state.timers.set(Deadline(DeadlineKind.GANG_PAUSE), ctx.now + compute_gang_pause(state.release_count, state.job_id))
    counts = Counter(container.role for container in idle)
    for role in state.roles.values():  # lowered once for all containers, before they are released
        containers.set_demand(ctx, role, min(role.demand, role.held - counts[role.name]))
    for container in idle:
        _release(ctx, container, reason)


def _is_idle(state: State, container: GrantedContainer) -> bool:
    task = state.tasks[container.task] if container.task else None
    return task is not None and not container.is_released and not task.living and task.retry_at is None


def _release(ctx: StepContext, container: GrantedContainer, reason: str) -> None:
    state = ctx.state
    assert container.task is not None
    task = state.tasks[container.task]
    if task.state in _NOT_STARTED:
        state.timers.cancel(Deadline(DeadlineKind.REGISTRATION, task.id))
        task.note = GangReleased()
        containers.request(ctx, task, TaskMove.REPLACE)
    containers.kill(ctx, container, reason)
    containers.detach(state, container)


def request_again(ctx: StepContext) -> None:
    """Request all missing containers once the pause has passed."""
    state = ctx.state
    for role in state.roles.values():
        containers.update_demand(ctx, role)
    if containers.is_incomplete(state):
        containers.start_gang_timeout(ctx)
    elastic_start.start_wait(ctx)
