"""Attempts of tasks to run their program: start, stop, the proof of the end; what does not stop is killed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tony.core import actions as act
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.reasons import ContainerLost, LaterAttempt, StopReason
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers
from tony.core.transitions import JobMove, TaskMove
from tony.model.failure import ClusterKill, Failure
from tony.model.ids import TaskId
from tony.model.setting_choices import RoleKind
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState

#: Seconds after the grace within which the end must be proved; then the container is killed.
STOP_SLACK_SECONDS = 10.0
#: Seconds after which a job ends although a container's end was never confirmed.
FORCE_SLACK_SECONDS = 10.0
#: Deadlines that end with a task attempt.
_ATTEMPT_DEADLINES = (
    DeadlineKind.EXECUTION,
    DeadlineKind.STARTUP,
    DeadlineKind.REPORT,
    DeadlineKind.STOP_CAUSE,
    DeadlineKind.LEASE,
)


def start(ctx: StepContext, tasks: Iterable[Task], version: int) -> None:
    """Start the programs of registered tasks under one version of the cluster spec."""
    state = ctx.state
    if state.job is not JobState.RUNNING:
        state.move_job(JobMove.RUN)
    limit = state.spec.timeouts.execution
    exports: dict[str, Mapping[str, str]] = {}
    for task in tasks:
        state.move_task(task, TaskMove.START, ctx.now)
        task.try_ = task.try_ + 1 if task.session == state.session else 1
        task.session, task.version, task.started_at = state.session, version, ctx.now
        task.note = LaterAttempt(number=task.try_, before=task.note) if task.try_ > 1 else None
        task.retry_at = None
        if limit:
            state.timers.set(Deadline(DeadlineKind.EXECUTION, task.id), ctx.now + limit)
        role = task.id.role
        if state.started_at is None and state.roles[role].kind is not RoleKind.SETUP:
            state.started_at = ctx.now
        if role not in exports:
            exports[role] = state.collect_variables(role)
        start = act.Start(task=task.id, session=task.session, try_=task.try_, version=version, variables=exports[role])
        ctx.request(start)


def find_current(state: State, task: TaskId, session: int, try_: int) -> Task | None:
    """Return the task, if a report is about its running attempt; count the report as refused otherwise."""
    known = state.tasks.get(task)
    if known and known.living and known.session == session and known.try_ == try_:
        return known
    state.refused += 1
    return None


def _stop(ctx: StepContext, task: Task, grace: float, reason: StopReason) -> None:
    """Stop a running program; may be repeated with a shorter grace."""
    if task.state is TaskState.RUNNING:
        ctx.state.move_task(task, TaskMove.STOP, ctx.now)
    ctx.request(act.Stop(task=task.id, session=task.session, try_=task.try_, grace=grace, reason=reason))


def end_attempt(ctx: StepContext, task: Task, move: TaskMove, at: float) -> None:
    """End a task attempt whose program has provably ended, at `at`."""
    clear_attempt(ctx, task, at)
    end_task(ctx, task, move)


def clear_attempt(ctx: StepContext, task: Task, at: float) -> None:
    """Clear what was awaited of a task attempt that ended at `at`."""
    ctx.state.timers.cancel_all(_ATTEMPT_DEADLINES, task.id)
    task.container_ended_at = task.container_end = task.pid = task.external_exit = None
    ctx.state.unexplained.discard(task.id)
    task.external_exit_at = 0.0
    task.ended_at = at


def end_task(ctx: StepContext, task: Task, move: TaskMove) -> None:
    """End the task in this session, whether or not its program ever ran. A task that has ended stays as it is."""
    task.retry_at = None
    if task.state not in ENDED_TASK_STATES:
        ctx.state.move_task(task, move, ctx.now)
        ctx.state.roles[task.id.role].unstarted += not task.started


def end_lost(ctx: StepContext, task: Task) -> Failure | None:
    """End a running program whose container is gone and whose report will not arrive; return the failure.

    None if it was to stop, or was classified already.
    """
    failure = failure_from_loss(ctx, task)
    at = ctx.now if task.container_ended_at is None else task.container_ended_at
    stopped = failure is None and not task.is_classified
    if not task.is_classified and task.container_end:
        task.note = ContainerLost(cause=task.container_end.cause)
    end_attempt(ctx, task, TaskMove.END if stopped else TaskMove.LOSE, at)
    return failure


def failure_from_loss(ctx: StepContext, task: Task) -> Failure | None:
    """Return the failure for the loss of a running program; None as for `end_lost`. Reads only."""
    state = ctx.state
    at = ctx.now if task.container_ended_at is None else task.container_ended_at
    if task.is_classified or (task.state is TaskState.STOPPING and at >= task.since):
        return None
    end = task.container_end
    assert end is not None
    if end.kill is ClusterKill.MEMORY_LIMIT:
        return failure_builders.failure_from_memory_limit(state, task, end.cause, at)
    return failure_builders.failure_from_loss(state, task, end, at)


def record_late_failure(state: State, task: Task, failure: Failure) -> None:
    """Record a failure reported after the decision: it may be the root cause, or is listed with it."""
    if not state.job.ended and state.roles[task.id.role].kind is not RoleKind.SIDECAR:
        state.failures.append(failure)


def stop(ctx: StepContext, task: Task, reason: StopReason) -> None:
    """Stop one program with the stop grace of its role."""
    _stop(ctx, task, ctx.state.spec.stop_grace_of(task.id.role), reason)


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
            end_attempt(ctx, task, TaskMove.FAIL, task.external_exit_at)
            record_late_failure(state, task, failure)
            continue
        if task.container_ended_at is not None:
            lost = end_lost(ctx, task)
            if lost:
                record_late_failure(state, task, lost)
            continue
        task_grace = grace_of(task.id.role) if grace is None else grace
        longest = max(longest, task_grace)
        _stop(ctx, task, task_grace, reason)
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
