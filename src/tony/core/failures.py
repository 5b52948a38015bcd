"""Build failure messages and select the root cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tony.core import pending_reason
from tony.core.deadline import DeadlineKind
from tony.core.state import RoleState, State, Task
from tony.errors import ExitCode
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import log_file_name
from tony.model.job_report import Failure, FailureCause, FailureClass
from tony.model.job_spec import TimeoutAfter
from tony.model.states import ENDED_TASK_STATES
from tony.units import format_duration

EXIT_CODES: Mapping[FailureClass, ExitCode] = {
    FailureClass.USER: ExitCode.PROGRAM_FAILED,
    FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    FailureClass.KILLED: ExitCode.KILLED,
    FailureClass.PLATFORM: ExitCode.BUG,
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
#: Maximum lines of `others` in a failure; ten thousand tasks may fail at once.
_MAX_OTHERS = 20

_CAUSES: Mapping[ExitReason, FailureCause] = {
    ExitReason.MEMORY: FailureCause.MEMORY,
    ExitReason.PORT_COLLISION: FailureCause.PORT_COLLISION,
    ExitReason.LAUNCH_FAILED: FailureCause.LAUNCH,
    ExitReason.REFUSED: FailureCause.LIMIT,
}

#: Cause of an external stop until the scheduler reports a better one; `refine_cause` searches for it.
_UNKNOWN_STOP = "its executor received a stop signal that the AM did not send"


def failure_from_exit(
    state: State, task: Task, status: ExitStatus, forced: str = "", *, over_memory: bool = False
) -> Failure:
    """Return the failure of a task whose program exited.

    Args:
        forced: why the cluster or the node ended its container, if that was reported before.
            Whether that was the job's fault is recorded in the task.
        over_memory: the container was killed for exceeding its memory limit.
    """
    outside = status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED)
    if outside and over_memory:
        return failure_from_memory_limit(state, task, forced, task.ended_at or 0.0, status)
    refused = status.reason is ExitReason.REFUSED
    infrastructure = outside or refused or status.reason is ExitReason.PORT_COLLISION
    reason = f"{task.id} {_describe_exit(status)}"
    if outside:
        reason = f"{task.id} was stopped externally: {forced or _UNKNOWN_STOP}"
    return _build_task_failure(
        state,
        task,
        cause=FailureCause.LOST if outside else _CAUSES.get(status.reason, FailureCause.PROGRAM),
        failure_class=FailureClass.INFRASTRUCTURE if infrastructure else FailureClass.USER,
        reason=reason,
        at=task.ended_at or 0.0,
        status=status,
        blameless=refused or (outside and task.blameless),
    )


def failure_from_memory_limit(
    state: State, task: Task, text: str, at: float, status: ExitStatus | None = None
) -> Failure:
    """Return the failure of a task whose container the cluster or the node ended for exceeding its memory limit."""
    failure = _build_task_failure(
        state, task, cause=FailureCause.MEMORY, failure_class=FailureClass.USER, reason="", at=at, status=status
    )
    return replace(failure, reason=_describe_memory_limit(task, text))


def _describe_memory_limit(task: Task, text: str) -> str:
    return f"{task.id} failed{f' on {task.host}' if task.host else ''}: {text}"


def refine_cause(state: State, task: Task, forced: str, *, over_memory: bool = False) -> None:
    """Replace the unknown cause of an external stop, once the scheduler reports why it ended the container."""
    for number, each in enumerate(state.failures):
        if each.task != str(task.id) or _UNKNOWN_STOP not in each.reason:
            continue
        better = replace(each, reason=each.reason.replace(_UNKNOWN_STOP, forced))
        if over_memory:
            reason = _describe_memory_limit(task, forced)
            better = replace(better, cause=FailureCause.MEMORY, failure_class=FailureClass.USER, reason=reason)
        state.failures[number] = better
    if state.restart_reason.startswith(f"{task.id} "):
        state.restart_reason = state.restart_reason.replace(_UNKNOWN_STOP, forced)


def _describe_exit(status: ExitStatus) -> str:
    if status.reason is ExitReason.MEMORY:
        return status.message
    if status.message:
        return f"failed: {status.message}"
    if status.signal:
        return f"was killed by {status.signal}"
    return f"failed with exit code {status.code}"


def failure_from_task(
    state: State,
    task: Task,
    cause: FailureCause,
    failure_class: FailureClass,
    reason: str,
    at: float,
    *,
    blameless: bool = False,
) -> Failure:
    """Return a failure of one task that is not its program's exit."""
    return _build_task_failure(
        state,
        task,
        cause=cause,
        failure_class=failure_class,
        reason=reason,
        at=at,
        status=None,
        blameless=blameless,
    )


def failure_from_timeout(state: State, task: Task, kind: DeadlineKind, at: float) -> Failure:
    """Return the failure of a task that exceeded `registration_timeout`, `startup_timeout` or `execution_timeout`."""
    timeouts = state.spec.timeouts
    if kind is DeadlineKind.REGISTRATION:
        limit = format_duration(timeouts.registration or 0)
        reason = f"{task.id} did not register within {limit} (registration_timeout) after its container was granted"
        failure_class = FailureClass.INFRASTRUCTURE
    elif kind is DeadlineKind.STARTUP:
        limit = format_duration(timeouts.startup or 0)
        reason = (
            f"{task.id} printed nothing within {limit} (startup_timeout) after its program started; "
            "most frameworks wait forever for a peer that does not connect"
        )
        failure_class = FailureClass.USER
    else:
        limit = format_duration(timeouts.execution or 0)
        reason = f"{task.id} ran longer than {limit} (execution_timeout)"
        failure_class = FailureClass.USER
    blameless = kind is DeadlineKind.REGISTRATION
    return failure_from_task(
        state, task, FailureCause(f"{kind.value}-timeout"), failure_class, reason, at, blameless=blameless
    )


def failure_from_group(state: State, role: RoleState, rule: TimeoutAfter, at: float) -> Failure:
    """Return the failure of a role that exceeded its `timeout_after`."""
    late = next((task for task in role.members if task.state not in ENDED_TASK_STATES), role.members[0])
    still = "was still running" if late.living else "had not started"
    reason = (
        f"{late.id} {still} {format_duration(rule.limit)} after every task of group {rule.group} "
        f"had ended (roles.{role.name}.timeout_after)"
    )
    return failure_from_task(state, late, FailureCause.GROUP_TIMEOUT, FailureClass.USER, reason, at)


def failure_from_job_timeout(state: State, kind: DeadlineKind, at: float) -> Failure:
    """Return the failure of a job that exceeded `job_timeout` or `allocation_timeout`."""
    if kind is DeadlineKind.ALLOCATION:
        limit = format_duration(state.spec.timeouts.allocation or 0)
        given_back = f"released {state.release_count} times so far (gang_patience)" if state.release_count else ""
        known = [pending_reason.describe_pending(state), given_back, state.queue_reason]
        waiting = f": {'; '.join(filter(None, known))}" if any(known) else ""
        return failure_from_job(
            state,
            FailureCause.ALLOCATION_TIMEOUT,
            FailureClass.INFRASTRUCTURE,
            f"not every container was granted within {limit} (allocation_timeout){waiting}",
            at,
        )
    limit = format_duration(state.spec.timeouts.job or 0)
    return failure_from_job(
        state, FailureCause.JOB_TIMEOUT, FailureClass.USER, f"the job ran longer than {limit} (job_timeout)", at
    )


def failure_from_job(state: State, cause: FailureCause, failure_class: FailureClass, reason: str, at: float) -> Failure:
    """Return a failure that belongs to no single task."""
    return Failure(failure_class=failure_class, cause=cause, reason=reason, session=max(state.session, 0), at=at)


def select_root_cause(state: State, decided: Failure) -> Failure:
    """Return the root cause: the earliest failure of this session, with the others listed in it.

    When a task dies, its peers fail with their own errors within a second or two, and reports may overtake each other;
    so the failure reported first is not always the one that happened first. Limits (timeouts, kills) stay as decided.
    """
    first = decided
    if decided.cause in _PROGRAM_CAUSES:
        first = min((f for f in state.failures if f.cause in _PROGRAM_CAUSES), key=lambda f: f.at, default=decided)
    others = [f.reason for f in state.failures if f is not first]
    more = len(others) - _MAX_OTHERS
    lines = others[:_MAX_OTHERS] + ([f"and {more} more"] if more > 0 else [])
    return replace(first, others=tuple(lines))


def _build_task_failure(
    state: State,
    task: Task,
    *,
    cause: FailureCause,
    failure_class: FailureClass,
    reason: str,
    at: float,
    status: ExitStatus | None,
    blameless: bool = False,
) -> Failure:
    ran = task.session == state.session and task.session > 0
    return Failure(
        failure_class=failure_class,
        cause=cause,
        reason=f"{reason} on {task.host}" if task.host and status else reason,
        session=state.session,
        at=at,
        task=str(task.id),
        host=task.host,
        exit_code=status.code if status else None,
        signal=status.signal if status else None,
        tail=status.tail if status else (),
        log=f"logs/{log_file_name(task.id, task.session, task.try_, 'err')}" if ran else None,
        blameless=blameless,
    )
