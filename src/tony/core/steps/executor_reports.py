"""Reports of executors about their programs: started, first line, exited. (For registration see `gang`.)

A report may arrive twice, late, or for a task attempt that has ended; it then changes nothing.
"""

from __future__ import annotations

from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.reasons import MissingExports
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    container_loss,
    containers,
    failure_handling,
    role_readiness,
    task_attempts,
    task_exit,
)
from tony.core.transitions import TaskMove
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.states import TaskState

#: Seconds to wait for the end of its container, after a program was stopped externally: it gives the cause.
#: The executor exits at once, but a busy cluster may report that late; a kubelet tells the cause of an eviction last.
STOP_CAUSE_WAIT_SECONDS = 60.0

_STARTUP = (DeadlineKind.STARTUP,)
_NEVER_RAN = (ExitReason.NOT_STARTED, ExitReason.LAUNCH_FAILED)


def on_started(ctx: StepContext, event: ev.Started) -> None:
    """The program runs; roles may have waited for that."""
    state = ctx.state
    task = task_attempts.find_current(state, event.task, event.session, event.try_)
    if task is None or task.pid is not None:
        return
    task.pid = event.pid
    limit = state.spec.timeouts.startup
    if limit and task.state is TaskState.RUNNING:
        state.timers.set(Deadline(DeadlineKind.STARTUP, task.id), ctx.now + limit)
    if not task.started:
        _mark_started(ctx, task)


def _mark_started(ctx: StepContext, task: Task) -> None:
    role = ctx.state.roles[task.id.role]
    task.started = True
    role.started += 1
    if role.started == role.total:
        role_readiness.advance(ctx)


def on_first_output(ctx: StepContext, event: ev.FirstOutput) -> None:
    """The program's start-up is complete."""
    task = task_attempts.find_current(ctx.state, event.task, event.session, event.try_)
    if task:
        ctx.state.timers.cancel_all(_STARTUP, task.id)


def _keep_exports(state: State, task: Task, event: ev.Exited) -> tuple[tuple[str, str], ...]:
    """Keep the exports of a program that succeeded; return those that it should have printed and did not.

    Of several tasks the lowest index counts: reports arrive in any order, and the result must not depend on it.
    """
    role, index = task.id
    missing = []
    for name, text in state.roles[role].spec.exports.items():
        value = event.exports.get(name)
        if value is not None:
            own = state.exports.setdefault(role, {})
            if name not in own or index <= own[name][0]:
                own[name] = index, value
        else:
            missing.append((name, text.strip()))
    return tuple(missing)


def on_exited(ctx: StepContext, event: ev.Exited) -> None:
    """The program exited."""
    state = ctx.state
    task = task_attempts.find_current(state, event.task, event.session, event.try_)
    if task is None or task.external_exit is not None:
        return
    container_loss.on_exit_report(ctx, task)
    status, at = event.status, min(event.at, ctx.now)
    if not task.started and status.reason not in _NEVER_RAN:
        _mark_started(ctx, task)
    task.status = task.note = status
    if task.is_classified:  # its exit is neither a second failure nor a success
        early = failure_builders.failure_from_early_error(state, task, status, at)
        if early and not state.active:
            task_attempts.record_late_failure(state, task, early)
        task_exit.end_classified(ctx, task, TaskMove.FAIL, at)
        return
    if status.ok:
        task_attempts.end_attempt(ctx, task, TaskMove.SUCCEED, at)
        missing = _keep_exports(state, task, event)
        if missing:
            task.note = MissingExports(status=status, variables=missing)
    elif task.state is TaskState.STOPPING and status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED):
        early = failure_builders.failure_from_early_error(state, task, status, at)
        task_attempts.end_attempt(ctx, task, TaskMove.END, at)
        if early:
            failure_handling.fail_task(ctx, task, early)
    elif _was_stopped_externally(state, task, status) or _has_unexplained_peer(state, task):
        task.external_exit, task.external_exit_at = status, at
        state.unexplained.add(task.id)
        state.timers.cancel(Deadline(DeadlineKind.STARTUP, task.id))
        state.timers.set(Deadline(DeadlineKind.STOP_CAUSE, task.id), ctx.now + STOP_CAUSE_WAIT_SECONDS)
        return
    else:
        task_exit.on_failed_exit(ctx, task, status, at)
        return
    task_exit.on_task_end(ctx, task)


def _has_unexplained_peer(state: State, task: Task) -> bool:
    """Return True if another task's end is still unexplained: that may be what made this one fail."""
    return state.active and task.container_ended_at is None and len(state.unexplained) > (task.id in state.unexplained)


def _was_stopped_externally(state: State, task: Task, status: ExitStatus) -> bool:
    """Return True if a program was stopped without a request of the AM, and its container's end may explain it."""
    held = containers.find_container(state, task)
    coming = held is not None and not held.is_released and task.container_ended_at is None
    return status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED) and state.active and coming
