"""Puts failures into words, and finds the first cause among several."""

from __future__ import annotations

from collections.abc import Mapping

from tony.core import pending_reason
from tony.core.state import RoleState, State, Task
from tony.dataclass import replace
from tony.errors import ExitCode
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import log_file_name
from tony.model.job_report import Failure, FailureClass
from tony.model.job_spec import TimeoutAfter
from tony.model.states import ENDED_TASK_STATES
from tony.units import format_duration

EXIT_CODES: Mapping[FailureClass, ExitCode] = {
    FailureClass.USER: ExitCode.PROGRAM_FAILED,
    FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    FailureClass.KILLED: ExitCode.KILLED,
    FailureClass.PLATFORM: ExitCode.BUG,
}

#: Causes that say how one task's program ended: among these, the earliest is the root.
_OF_PROGRAMS = frozenset({"program", "memory", "launch", "limit", "lost", "port-collision", "silent"})
#: Lines of `others` in a failure; ten thousand tasks may fail at once.
_OTHERS = 20

_CAUSES = {
    ExitReason.MEMORY: "memory",
    ExitReason.PORT_COLLISION: "port-collision",
    ExitReason.LAUNCH_FAILED: "launch",
    ExitReason.REFUSED: "limit",
}


#: Who ended it, as far as an executor knows that was told to end, and not by us.
_SOMEBODY = "its executor was told to end by somebody else"


def failure_from_exit(
    state: State, task: Task, status: ExitStatus, forced: str = "", *, over_memory: bool = False
) -> Failure:
    """The failure that a program's end is.

    Args:
        forced: why cluster or node have ended its container, if they have told that before.
            Whether that was blameless is known of the task.
        over_memory: that was because it took more memory than it may have.
    """
    outside = status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED)
    if outside and over_memory:
        return failure_from_memory_limit(state, task, forced, task.ended_at or 0.0, status)
    refused = status.reason is ExitReason.REFUSED
    infrastructure = outside or refused or status.reason is ExitReason.PORT_COLLISION
    said = f"{task.id} {_how(status)}"
    if outside:
        said = f"{task.id} was stopped from outside: {forced or _SOMEBODY}"
    return _task_failure(
        state,
        task,
        cause="lost" if outside else _CAUSES.get(status.reason, "program"),
        failure_class=FailureClass.INFRASTRUCTURE if infrastructure else FailureClass.USER,
        reason=said,
        at=task.ended_at or 0.0,
        status=status,
        blameless=refused or (outside and task.blameless),
    )


def failure_from_memory_limit(
    state: State, task: Task, said: str, at: float, status: ExitStatus | None = None
) -> Failure:
    """A task whose container cluster or node have ended, for it took more memory than it may have."""
    failure = _task_failure(
        state, task, cause="memory", failure_class=FailureClass.USER, reason="", at=at, status=status
    )
    return replace(failure, reason=_over_memory(task, said))


def _over_memory(task: Task, said: str) -> str:
    return f"{task.id} failed{f' on {task.host}' if task.host else ''}: {said}"


def refine_cause(state: State, task: Task, forced: str, *, over_memory: bool = False) -> None:
    """Why cluster or node have ended a container is told after its executor has reported that somebody did."""
    for number, each in enumerate(state.failures):
        if each.task != str(task.id) or _SOMEBODY not in each.reason:
            continue
        better = replace(each, reason=each.reason.replace(_SOMEBODY, forced))
        if over_memory:
            reason = _over_memory(task, forced)
            better = replace(better, cause="memory", failure_class=FailureClass.USER, reason=reason)
        state.failures[number] = better
    if state.restart_reason.startswith(f"{task.id} "):
        state.restart_reason = state.restart_reason.replace(_SOMEBODY, forced)


def _how(status: ExitStatus) -> str:
    if status.message:
        return f"failed: {status.message}"
    if status.signal:
        return f"was killed by {status.signal}"
    return f"failed with exit code {status.code}"


def failure_from_task(
    state: State,
    task: Task,
    cause: str,
    failure_class: FailureClass,
    reason: str,
    at: float,
    *,
    blameless: bool = False,
) -> Failure:
    """A failure of one task that its program's end does not tell."""
    return _task_failure(
        state,
        task,
        cause=cause,
        failure_class=failure_class,
        reason=reason,
        at=at,
        status=None,
        blameless=blameless,
    )


def failure_from_timeout(state: State, task: Task, kind: str, at: float) -> Failure:
    """A task ran into `registration_timeout`, `startup_timeout` or `execution_timeout`."""
    timeouts = state.spec.timeouts
    if kind == "registration":
        limit = format_duration(timeouts.registration or 0)
        reason = f"{task.id} did not register within {limit} (registration_timeout) after its container was granted"
        failure_class = FailureClass.INFRASTRUCTURE
    elif kind == "startup":
        limit = format_duration(timeouts.startup or 0)
        reason = (
            f"{task.id} printed nothing within {limit} (startup_timeout) after its program was started; "
            "most frameworks wait for ever for a peer that never comes"
        )
        failure_class = FailureClass.USER
    else:
        limit = format_duration(timeouts.execution or 0)
        reason = f"{task.id} ran longer than {limit} (execution_timeout)"
        failure_class = FailureClass.USER
    blameless = kind == "registration"
    return failure_from_task(state, task, f"{kind}-timeout", failure_class, reason, at, blameless=blameless)


def failure_from_group(state: State, role: RoleState, rule: TimeoutAfter, at: float) -> Failure:
    """A role outlived its group's end by more than it may."""
    late = next((task for task in role.members if task.state not in ENDED_TASK_STATES), role.members[0])
    still = "still ran" if late.living else "did not run yet"
    reason = (
        f"{late.id} {still} {format_duration(rule.limit)} after every task of group {rule.group} "
        f"was done (roles.{role.name}.timeout_after)"
    )
    return failure_from_task(state, late, "group-timeout", FailureClass.USER, reason, at)


def failure_from_job_timeout(state: State, kind: str, at: float) -> Failure:
    """The whole job ran into `job_timeout` or `allocation_timeout`."""
    if kind == "allocation":
        limit = format_duration(state.spec.timeouts.allocation or 0)
        given_back = f"given back so far: {state.given_back} times (gang_patience)" if state.given_back else ""
        known = [pending_reason.describe_pending(state), given_back, state.queue_reason]
        waiting = f": {'; '.join(filter(None, known))}" if any(known) else ""
        return failure_from_job(
            state,
            "allocation-timeout",
            FailureClass.INFRASTRUCTURE,
            f"not every container was granted within {limit} (allocation_timeout){waiting}",
            at,
        )
    limit = format_duration(state.spec.timeouts.job or 0)
    return failure_from_job(
        state, "job-timeout", FailureClass.USER, f"the job ran longer than {limit} (job_timeout)", at
    )


def failure_from_job(state: State, cause: str, failure_class: FailureClass, reason: str, at: float) -> Failure:
    """A failure that belongs to no single task."""
    return Failure(failure_class=failure_class, cause=cause, reason=reason, session=max(state.session, 0), at=at)


def root(state: State, decided: Failure) -> Failure:
    """The first cause: the earliest end among this session's failures, with the others named beside it.

    A peer's death shows in the others as their own error within a second or two, and reports may overtake each other;
    so the failure that was heard of first is not always the one that happened first. Limits (time-outs, kills) stand
    as they were decided.
    """
    first = decided
    if decided.cause in _OF_PROGRAMS:
        first = min((f for f in state.failures if f.cause in _OF_PROGRAMS), key=lambda f: f.at, default=decided)
    others = [f.reason for f in state.failures if f is not first]
    more = len(others) - _OTHERS
    lines = others[:_OTHERS] + ([f"and {more} more"] if more > 0 else [])
    return replace(first, others=tuple(lines))


def _task_failure(
    state: State,
    task: Task,
    *,
    cause: str,
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
