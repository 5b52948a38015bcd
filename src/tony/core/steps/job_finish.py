"""The end of a job: its result and root cause are decided once, then everything left is stopped and released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.reasons import GangReleased, Success
from tony.core.state import Final, State
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, task_attempts
from tony.core.transitions import JobMove, TaskMove
from tony.errors import ExitCode
from tony.model.failure import EXIT_CODES, Failure, FailureCause
from tony.model.ids import TaskId, format_task_ranges
from tony.model.states import JobState

_LAST_MOVE: Mapping[JobState, JobMove] = {
    JobState.SUCCEEDED: JobMove.SUCCEED,
    JobState.FAILED: JobMove.FAIL,
    JobState.KILLED: JobMove.KILL,
}
#: Causes that describe the end of one task's program: the earliest of these is the root cause.
_PROGRAM_CAUSES = frozenset(
    {
        FailureCause.PROGRAM,
        FailureCause.MEMORY,
        FailureCause.LAUNCH,
        FailureCause.LIMIT,
        FailureCause.LOST,
        FailureCause.PORT_COLLISION,
        FailureCause.SILENT,
    }
)
#: What ends programs that hang.
_TIME_LIMITS = frozenset({FailureCause.EXECUTION_TIMEOUT, FailureCause.JOB_TIMEOUT, FailureCause.HANG})
#: Maximum lines of `others` in a failure; ten thousand tasks may fail at once.
_MAX_OTHER_FAILURES = 20
_MAX_TASK_RANGES = 5


def on_kill(ctx: StepContext, event: ev.KillRequested) -> None:
    """Kill the job; `now` on a job that is stopping skips the stop grace."""
    state = ctx.state
    if state.job.ended:
        return
    killed = failure_builders.failure_from_kill(state, event.actor, ctx.now)
    grace = 0.0 if event.now else None
    if not state.final:
        finish(ctx, JobState.KILLED, killed, grace)
    elif grace is not None:
        task_attempts.stop_all(ctx, killed, grace)


def finish(
    ctx: StepContext,
    result: JobState,
    reason: Failure | Success,
    grace: float | None = None,
    no_restart_reason: str = "",
) -> None:
    """Decide the job's result, unless it is decided, and stop what is left.

    Args:
        no_restart_reason: why nothing is restarted; empty if no restart was considered.
    """
    state = ctx.state
    if state.final:
        return
    state.move_job(JobMove.STOP)
    state.failures += state.suspects
    state.suspects.clear()
    state.final = Final(result, reason if isinstance(reason, Failure) else None, no_restart_reason)
    state.queue_reason = ""
    state.timers.clear()
    for role in state.roles.values():
        role.waiting.clear()
        for task in role.tasks:
            if not task.living:
                if isinstance(task.note, GangReleased):  # it is not requested again
                    task.note = None
                task_attempts.end_task(ctx, task, TaskMove.END)
        container_demand.set_demand(ctx, role, 0)
    task_attempts.stop_all(ctx, reason, grace)
    for container in state.containers.values():
        if not (container.task and state.tasks[container.task].living):
            containers.release(ctx, container)
    if state.containers and Deadline(DeadlineKind.STOP_LIMIT) not in state.timers:
        state.timers.set(Deadline(DeadlineKind.STOP_LIMIT), ctx.now + task_attempts.STOP_SLACK_SECONDS)
    finish_if_idle(ctx)


def abandon(ctx: StepContext) -> None:
    """End the job although the scheduler never confirmed the end of the last containers."""
    state = ctx.state
    for task in state.tasks.values():
        if task.living:
            task_attempts.end_attempt(ctx, task, TaskMove.LOSE, ctx.now)
        task.container = task.incarnation = task.executor_pid = None
    for role in state.roles.values():
        role.held = 0
    state.ended_ids.update(state.containers)
    state.containers.clear()
    finish_if_idle(ctx)


def finish_if_idle(ctx: StepContext) -> None:
    """End a job whose result is decided once no program and no container is left."""
    state = ctx.state
    final = state.final
    if final is None or state.job is not JobState.STOPPING or state.living or state.containers:
        return
    state.timers.clear()
    if final.failure and final.state is JobState.FAILED:
        final.failure = replace(select_root_cause(state, final.failure), no_restart_reason=final.no_restart_reason)
    state.move_job(_LAST_MOVE[final.state])
    state.ended_at = ctx.now
    request_finish(ctx)


def request_finish(ctx: StepContext) -> None:
    """Request the Finish action."""
    state = ctx.state
    assert state.final is not None
    ctx.request(act.Finish(state=state.job, exit_code=int(exit_code(state) or 0), failure=state.final.failure))


def exit_code(state: State) -> ExitCode | None:
    """Return the exit code for clients that follow the job; None until the job has ended."""
    final = state.final
    if not final or not state.job.ended:
        return None
    return ExitCode.SUCCEEDED if final.failure is None else EXIT_CODES[final.failure.failure_class]


def select_root_cause(state: State, decided: Failure) -> Failure:
    """Return the root cause: the first failure of this session, with the others listed in it.

    When a task dies, its peers fail with their own errors within a second or two, and reports may overtake each other;
    so the failure reported first is not always the one that happened first. Limits (timeouts, kills) stay as decided,
    unless a program had printed an error and hung since.
    """
    first = decided
    if decided.cause in _TIME_LIMITS:
        hung = [f for f in state.failures if f.cause is FailureCause.PROGRAM and f.error_at < decided.at <= f.at]
        first = select_first_failure(hung) if hung else decided
    if decided.cause in _PROGRAM_CAUSES:
        first = select_first_failure([f for f in state.failures if f.cause in _PROGRAM_CAUSES] or [decided])
    others = [f for f in state.failures if f is not first]
    consequences = tuple(dict.fromkeys(f.task for f in others[:_MAX_OTHER_FAILURES] if f.task and f.is_consequence))
    return replace(first, others=_list_others(first, others), consequences=consequences)


def _list_others(first: Failure, others: Sequence[Failure]) -> tuple[str, ...]:
    """Return one line for each further failure; tasks with the same error as the first one share a line."""
    tasks: list[TaskId] = []
    lines: list[str] = []
    for failure in others:
        if failure.task and failure.error_line and _strip_work_folder(failure) == _strip_work_folder(first):
            tasks.append(failure.task)
        else:
            lines.append(failure.reason)
    if tasks:
        lines.insert(0, f"{format_task_ranges(sorted(tasks), _MAX_TASK_RANGES)}: the same error")
    more = len(lines) - _MAX_OTHER_FAILURES
    return (*lines[:_MAX_OTHER_FAILURES], f"and {more} more") if more > 0 else tuple(lines)


def _strip_work_folder(failure: Failure) -> str:
    """Return the decisive line without the name of the task's work folder, as in `can't open file '.../train.py'`."""
    folder = f"/{failure.task.role}-{failure.task.index}/" if failure.task else ""
    return failure.error_line.replace(folder, "/") if folder else failure.error_line


def select_first_failure(failures: Sequence[Failure]) -> Failure:
    """Return the failure that the others may follow from: the earliest error of a program's own.

    Without one, that of a task that the output of another names as missing, else the earliest.
    """
    named = find_named_tasks(failures)
    return min(failures, key=lambda each: (each.is_consequence and 1 + (each.task not in named), each.error_at))


def find_named_tasks(failures: Sequence[Failure]) -> frozenset[TaskId]:
    """Return the tasks that failed programs name as missing."""
    lines = [line for failure in failures if failure.diagnosis for line in failure.diagnosis.evidence]
    return frozenset(task for line in lines for task in line.named)
