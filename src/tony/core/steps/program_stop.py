"""Stops programs, by force if they do not stop in time."""

from __future__ import annotations

from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.reasons import StopReason
from tony.core.state import Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, task_attempts
from tony.core.transitions import TaskMove
from tony.model.states import JobState

#: Seconds after the grace within which the end must be proved; then the container is killed.
STOP_SLACK_SECONDS = 10.0
#: Seconds after which a job ends although a container's end was never confirmed.
FORCE_SLACK_SECONDS = 10.0


def stop(ctx: StepContext, task: Task, reason: StopReason) -> None:
    """Stop one program with the stop grace of its role."""
    task_attempts.stop(ctx, task, ctx.state.spec.stop_grace_of(task.id.role), reason)


def stop_all(ctx: StepContext, reason: StopReason, grace: float | None = None) -> None:
    """Stop every running program at the same time. Programs that do not stop in time are killed."""
    state = ctx.state
    grace_of = state.spec.restart_grace_of if state.job is JobState.RESTARTING else state.spec.stop_grace_of
    longest = 0.0
    for task in state.tasks.values():
        if not task.living:
            continue
        task.retry_at = None
        if task.external_exit is not None:
            failure = failure_builders.failure_from_exit(state, task, task.external_exit)
            task_attempts.end_attempt(ctx, task, TaskMove.FAIL, task.external_exit_at)
            task_attempts.record_late_failure(state, task, failure)
            continue
        if task.container_ended_at is not None:
            lost = task_attempts.end_lost(ctx, task)
            if lost:
                task_attempts.record_late_failure(state, task, lost)
            continue
        task_grace = grace_of(task.id.role) if grace is None else grace
        longest = max(longest, task_grace)
        task_attempts.stop(ctx, task, task_grace, reason)
    if state.living:
        state.timers.set(Deadline(DeadlineKind.STOP_LIMIT), ctx.now + longest + STOP_SLACK_SECONDS)


def kill_remaining(ctx: StepContext) -> None:
    """Kill what should have ended by now, and set the next deadline."""
    state = ctx.state
    is_stopping = state.job is JobState.STOPPING
    for container in state.containers.values():
        if is_stopping or (container.task and state.tasks[container.task].living):
            containers.kill(ctx, container, "it did not stop in time")
    state.timers.set(Deadline(DeadlineKind.FORCE_LIMIT), ctx.now + FORCE_SLACK_SECONDS)
