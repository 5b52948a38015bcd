"""Stopping programs, and making sure that this comes to an end."""

from __future__ import annotations

from tony.core import failure_text
from tony.core.state import Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, task_attempts
from tony.core.transitions import TaskMove
from tony.model.states import JobState

#: Seconds after the grace in which a stop must be proved; then the container is ended by force.
STOP_SLACK = 10.0
#: Seconds after which a job ends although a container's end was never confirmed.
FORCE_SLACK = 10.0


def stop(turn: StepContext, task: Task, reason: str) -> None:
    """Stops one program with its own patience."""
    task_attempts.stop(turn, task, turn.state.spec.stop_grace_of(task.id.role), reason)


def stop_all(turn: StepContext, reason: str, grace: float | None = None) -> None:
    """Stops every living program, all of them at one moment. What was not proved in time is ended by force."""
    state = turn.state
    patience_of = state.spec.restart_grace_of if state.job is JobState.RESTARTING else state.spec.stop_grace_of
    longest = 0.0
    for task in state.tasks.values():
        if not task.living:
            continue
        task.again = None
        if task.outside is not None:
            failure = failure_text.failure_from_exit(state, task, task.outside)
            task_attempts.over(turn, task, TaskMove.FAIL, task.outside_at)
            task_attempts.note_late(state, task, failure)
            continue
        if task.gone_at is not None:
            lost = task_attempts.lost(turn, task)
            if lost:
                task_attempts.note_late(state, task, lost)
            continue
        patience = patience_of(task.id.role) if grace is None else grace
        longest = max(longest, patience)
        task_attempts.stop(turn, task, patience, reason)
    if state.living:
        state.timers.set("stop-limit", turn.now + longest + STOP_SLACK)


def force(turn: StepContext) -> None:
    """Ends by force what should be gone by now, and sets when to look again."""
    state = turn.state
    all_of_them = state.job is JobState.STOPPING
    for container in state.containers.values():
        if all_of_them or (container.task and state.tasks[container.task].living):
            containers.end_by_force(turn, container, "it did not stop in time")
    state.timers.set("force-limit", turn.now + FORCE_SLACK)
