"""A gang that was granted in part, and gets no more for too long, gives back what it has and asks again as a whole.

Two jobs that each hold a part of a full queue would wait for each other for ever. Only where the scheduler does not
grant gangs by itself. It is nobody's fault: no restart and no launch is charged.
"""

from __future__ import annotations

from collections import Counter

from tony.core import pending_reason
from tony.core.policies import gang_backoff, gang_size_policy
from tony.core.state import Container, State
from tony.core.step_context import StepContext
from tony.core.steps import containers, elastic_start
from tony.core.transitions import TaskMove
from tony.model.states import TaskState
from tony.units import format_duration

_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def release_partial_gang(turn: StepContext) -> None:
    """Nothing more was granted: gives back every container in which no program lives, and asks for none for a while.

    Whoever has none to give back is in nobody's way, and goes on waiting. So does whoever has enough to start soon.
    """
    state = turn.state
    if gang_size_policy.enough(state):
        return
    idle = [container for container in state.containers.values() if _is_idle(state, container)]
    if not idle:
        return
    waited = format_duration(state.spec.gang_patience or 0)
    missing = pending_reason.describe_pending(state)
    reason = f"{missing}; nothing was granted for {waited} (gang_patience), so others may have it"
    state.given_back += 1
    state.timers.set("gang-pause", turn.now + gang_backoff.gang_pause(state.given_back, state.job_id))
    counts = Counter(container.role for container in idle)
    for role in state.roles.values():  # told once, before: the containers are many
        containers.demand(turn, role, min(role.demand, role.held - counts[role.name]))
    for container in idle:
        _give_back(turn, container, reason)


def _is_idle(state: State, container: Container) -> bool:
    task = state.tasks[container.task] if container.task else None
    return task is not None and not container.given_back and not task.living and task.again is None


def _give_back(turn: StepContext, container: Container, reason: str) -> None:
    state = turn.state
    assert container.task is not None
    task = state.tasks[container.task]
    if task.state in _NOT_STARTED:
        state.timers.cancel(f"registration:{task.name}")
        task.note = containers.GIVEN_BACK
        containers.request(turn, task, TaskMove.REPLACE)
    containers.end_by_force(turn, container, reason)
    containers.detach(state, container)


def ask_again(turn: StepContext) -> None:
    """The pause is over: asks for all that is missing."""
    state = turn.state
    for role in state.roles.values():
        containers.settle_demand(turn, role)
    if containers.is_incomplete(state):
        containers.expect_another(turn)
    elastic_start.begin(turn)
