"""A task is over: what follows for its container, its role, its session and its job."""

from __future__ import annotations

from tony.core import failure_text
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
from tony.model.job_report import Failure, FailureClass
from tony.model.states import ENDED_TASK_STATES, JobState, RoleKind, StopOn, TaskState


def task_over(turn: StepContext, task: Task) -> None:
    """What follows from one task's end, whatever it was. Its failure, if it was one, has been judged."""
    state = turn.state
    if task.state not in ENDED_TASK_STATES:
        return  # it goes on, in its next try
    held = containers.held_by(state, task)
    if held and (state.job is JobState.STOPPING or (state.active and not state.may_restart)):
        containers.give_back(turn, held)
    if state.job is JobState.RESTARTING:
        session_restart.open_next_session_if_idle(turn)
    elif state.job is JobState.STOPPING:
        job_finish.finish_if_idle(turn)
    elif state.active:
        role = state.roles[task.id.role]
        if role.ended == role.total:
            if role.kind is RoleKind.SETUP and role.succeeded == role.total:
                containers.give_back_all(turn, role)  # whatever comes, it is not run again
            role_readiness.role_over(turn, role)
        elif not task.started:
            role_readiness.look_for_blocked(turn)
        elif state.spec.stop_on is not StopOn.CHIEF:
            return  # one of many: nobody waits for it alone
        role_readiness.advance(turn)


def failed(turn: StepContext, task: Task, status: ExitStatus, at: float) -> None:
    """A program has ended, and not well."""
    state = turn.state
    task.ended_at = at
    forced = task.forced if task.gone_at is not None else ""
    over_memory = bool(forced) and task.over_memory
    failure = failure_text.failure_from_exit(state, task, status, forced, over_memory=over_memory)
    if not (task_retry.decide(turn, task, failure) and task_retry.begin(turn, task, at)):
        task_attempts.over(turn, task, TaskMove.FAIL, at)
        failure_handling.of_task(turn, task, failure)
    task_over(turn, task)


def handle_external_stop(turn: StepContext, task: Task) -> None:
    """Its container's end has told who had a program stopped that nobody here did; or nothing tells it in time."""
    assert task.outside is not None
    failed(turn, task, task.outside, task.outside_at)


def over(turn: StepContext, task: Task, move: TaskMove, at: float) -> None:
    """The program of a task whose failure was judged before is over."""
    retried = task.again is not None
    if retried and task_retry.begin(turn, task, at):
        return
    task_attempts.over(turn, task, move, at)
    if retried:
        reason = f"{task.id} was to start again alone, and lost its container: {task.gone_why}"
        lost = failure_text.failure_from_task(
            turn.state, task, "lost", FailureClass.INFRASTRUCTURE, reason, at, blameless=task.blameless
        )
        failure_handling.of_task(turn, task, lost)
    task_over(turn, task)


def fault(turn: StepContext, task: Task, failure: Failure) -> None:
    """A failure that is not told by the program's end: a time-out, silence, no container that works."""
    task.judged, task.note = True, failure.reason
    if task_retry.decide(turn, task, failure):
        if not task.living:
            task_retry.replace(turn, task)
        elif task.state is TaskState.RUNNING:
            program_stop.stop(turn, task, failure.reason)
        return
    if not task.living:
        task_attempts.close(turn, task, TaskMove.FAIL)
        held = containers.held_by(turn.state, task)
        if held and turn.state.active:
            containers.end_by_force(turn, held, failure.reason)
    elif task.state is TaskState.RUNNING:
        program_stop.stop(turn, task, failure.reason)
    failure_handling.of_task(turn, task, failure)
    if not task.living:
        task_over(turn, task)


def lost(turn: StepContext, task: Task) -> None:
    """The container of a living program is gone and its report will not come."""
    if task.judged:
        over(turn, task, TaskMove.LOSE, turn.now if task.gone_at is None else task.gone_at)
        return
    failure = task_attempts.lost_by(turn, task)
    if failure and task_retry.decide(turn, task, failure) and task_retry.begin(turn, task, failure.at):
        return
    task_attempts.lost(turn, task)
    if failure:
        failure_handling.of_task(turn, task, failure)
    task_over(turn, task)
