"""Stopping programs, and making sure that this comes to an end."""

from __future__ import annotations

from tony.core.state import Task
from tony.core.steps import containers, programs
from tony.core.turn import Turn
from tony.model.states import JobState

#: Seconds after the grace in which a stop must be proved; then the container is ended by force.
STOP_SLACK = 10.0
#: Seconds after which a job ends although a container's end was never confirmed.
FORCE_SLACK = 10.0


def stop(turn: Turn, task: Task, reason: str) -> None:
    """Stops one program with its own patience."""
    programs.stop(turn, task, turn.state.spec.stop_grace_of(task.id.role), reason)


def stop_all(turn: Turn, reason: str, grace: float | None = None) -> None:
    """Stops every living program. What was not proved by a certain time is ended by force."""
    state = turn.state
    longest = 0.0
    for task in state.tasks.values():
        if not task.living:
            continue
        if task.gone_at is not None:
            failure = programs.lost(turn, task)
            if failure:
                programs.note_late(state, task, failure)
            continue
        patience = state.spec.stop_grace_of(task.id.role) if grace is None else grace
        longest = max(longest, patience)
        programs.stop(turn, task, patience, reason)
    if state.living:
        state.timers.set("stop-limit", turn.now + longest + STOP_SLACK)


def force(turn: Turn) -> None:
    """Ends by force what should be gone by now, and sets when to look again."""
    state = turn.state
    all_of_them = state.job is JobState.STOPPING
    for container in state.containers.values():
        if all_of_them or (container.task and state.tasks[container.task].living):
            containers.end_by_force(turn, container, "it did not stop in time")
    state.timers.set("force-limit", turn.now + FORCE_SLACK)
