"""A task ended: consequences for its container, its role, its session and its job."""

from __future__ import annotations

from tony.core import failure_builders
from tony.core.reasons import TaskFailed
from tony.core.state import Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    containers,
    failure_handling,
    job_finish,
    program_stop,
    role_readiness,
    session_restart,
    task_attempts,
    task_retry,
)
from tony.core.transitions import TaskMove
from tony.model.exit_status import ExitStatus
from tony.model.failure_facts import ContainerLoss
from tony.model.job_report import Failure
from tony.model.setting_choices import RoleKind, StopOn
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState


def on_task_end(ctx: StepContext, task: Task) -> None:
    """Handle the end of a task. Its failure, if any, has been classified."""
    state = ctx.state
    if task.state not in ENDED_TASK_STATES:
        return  # it continues with its next task attempt
    held = containers.find_container(state, task)
    if held and (state.job is JobState.STOPPING or (state.active and not state.may_restart)):
        containers.release(ctx, held)
    if state.job is JobState.RESTARTING:
        session_restart.open_next_session_if_idle(ctx)
    elif state.job is JobState.STOPPING:
        job_finish.finish_if_idle(ctx)
    elif state.active:
        role = state.roles[task.id.role]
        if role.ended == role.total:
            if role.kind is RoleKind.SETUP and role.succeeded == role.total:
                containers.release_all(ctx, role)  # it is never run again
            role_readiness.on_role_end(ctx, role)
        elif not task.started:
            role_readiness.report_blocked(ctx)
        elif state.spec.stop_on is not StopOn.CHIEF:
            return  # no role waits for a single task
        role_readiness.advance(ctx)


def on_failed_exit(ctx: StepContext, task: Task, status: ExitStatus, at: float) -> None:
    """Handle a program that exited with a failure."""
    state = ctx.state
    task.ended_at = at
    end = task.container_end if task.container_ended_at is not None else None
    failure = failure_builders.failure_from_exit(state, task, status, end)
    if not (task_retry.decide(ctx, task, failure) and task_retry.begin(ctx, task, at)):
        task_attempts.end_attempt(ctx, task, TaskMove.FAIL, at)
        failure_handling.fail_task(ctx, task, failure)
    on_task_end(ctx, task)


def handle_external_stop(ctx: StepContext, task: Task) -> None:
    """Handle an external stop, once the end of the container gave the cause, or did not in time."""
    assert task.external_exit is not None
    on_failed_exit(ctx, task, task.external_exit, task.external_exit_at)


def end_classified(ctx: StepContext, task: Task, move: TaskMove, at: float) -> None:
    """Handle the end of a program whose failure was classified before."""
    retried, end = task.retry_at is not None, task.container_end
    if retried and task_retry.begin(ctx, task, at):
        return
    task_attempts.end_attempt(ctx, task, move, at)
    if retried:
        how = ContainerLoss.NOT_RESTARTED
        cause, blameless = (end.cause, end.blameless) if end else ("", False)
        lost = failure_builders.failure_from_loss(ctx.state, task, cause, at, how=how, blameless=blameless)
        failure_handling.fail_task(ctx, task, lost)
    on_task_end(ctx, task)


def on_failure(ctx: StepContext, task: Task, failure: Failure) -> None:
    """Handle a failure that is not the program's exit: a timeout, silence, no container that works."""
    task.is_classified, task.note = True, TaskFailed(failure=failure)
    if task_retry.decide(ctx, task, failure):
        if not task.living:
            task_retry.replace(ctx, task)
        elif task.state is TaskState.RUNNING:
            program_stop.stop(ctx, task, failure)
        return
    if not task.living:
        task_attempts.end_task(ctx, task, TaskMove.FAIL)
        held = containers.find_container(ctx.state, task)
        if held and ctx.state.active:
            containers.kill(ctx, held, failure.reason)
    elif task.state is TaskState.RUNNING:
        program_stop.stop(ctx, task, failure)
    failure_handling.fail_task(ctx, task, failure)
    if not task.living:
        on_task_end(ctx, task)


def on_lost(ctx: StepContext, task: Task) -> None:
    """Handle that the container of a running program is gone and its report will not arrive."""
    if task.is_classified:
        end_classified(
            ctx, task, TaskMove.LOSE, ctx.now if task.container_ended_at is None else task.container_ended_at
        )
        return
    failure = task_attempts.failure_from_loss(ctx, task)
    if failure and task_retry.decide(ctx, task, failure) and task_retry.begin(ctx, task, failure.at):
        return
    task_attempts.end_lost(ctx, task)
    if failure:
        failure_handling.fail_task(ctx, task, failure)
    on_task_end(ctx, task)
