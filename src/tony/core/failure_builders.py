"""Build failures from exits, losses, timeouts and kills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tony.core import sentences
from tony.core.deadline import DeadlineKind
from tony.core.events import ContainerEnded, Stalled
from tony.core.remedies import add_remedy
from tony.core.sentences import describe_failure
from tony.core.state import RoleState, State, Task
from tony.diagnosis.bug_line import find_executor_bug
from tony.diagnosis.failure_diagnosis import diagnose
from tony.model.actor import Actor
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning, strip_modules
from tony.model.failure import (
    AllocationFacts,
    ClusterKill,
    ContainerFacts,
    ContainerLoss,
    ExitFacts,
    Failure,
    FailureCause,
    FailureClass,
    FailureFacts,
    GroupTimeoutFacts,
    MessageFacts,
    TimeoutFacts,
)
from tony.model.ids import TaskId, format_task_ranges
from tony.model.job_spec import TimeoutAfter
from tony.model.log_name import ERR, STACKS, LogName
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.states import ENDED_TASK_STATES, TaskState

_CAUSES: Mapping[ExitReason, FailureCause] = {
    ExitReason.MEMORY: FailureCause.MEMORY,
    ExitReason.PORT_COLLISION: FailureCause.PORT_COLLISION,
    ExitReason.LAUNCH_FAILED: FailureCause.LAUNCH,
    ExitReason.REFUSED: FailureCause.LIMIT,
}

#: Characters of the decisive line in a sentence.
_MAX_REASON_CHARACTERS = 200
#: Ranges of tasks (`worker:0-6`) in a sentence.
_MAX_TASK_RANGES = 3
#: Advice for a task that has ended while the others wait for it.
UNEVEN_ADVICE = (
    "let all tasks make the same number of steps (with uneven data: Join, drop_last, or a sampler that pads); "
    "the errors of the others follow from this"
)
#: Seconds for which a program that hangs after an error may print more about it.
_TRAILING_OUTPUT_SECONDS = 5.0


def failure_from_exit(state: State, task: Task, status: ExitStatus, end: ContainerEnded | None = None) -> Failure:
    """Return the failure of a task whose program exited.

    Args:
        end: the end of its container, if that was reported before.
    """
    at = task.ended_at or 0.0
    user, infrastructure = FailureClass.USER, FailureClass.INFRASTRUCTURE
    if status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED):
        if end and end.kill is ClusterKill.MEMORY_LIMIT:
            return failure_from_memory_limit(state, task, end.cause, at, status)
        facts = ContainerFacts(
            container=ContainerLoss.STOPPED, end=end.cause if end and end.kill else "", kill=end.kill if end else None
        )
        lost, blameless = FailureCause.LOST, end is not None and end.blameless
        return failure_from_task(state, task, lost, infrastructure, facts, at, status=status, blameless=blameless)
    refused = status.reason is ExitReason.REFUSED
    kind = infrastructure if refused or status.reason is ExitReason.PORT_COLLISION else user
    cause = _CAUSES.get(status.reason, FailureCause.PROGRAM)
    exit_facts = ExitFacts(exit_message=status.message)
    return failure_from_task(state, task, cause, kind, exit_facts, at, status=status, blameless=refused)


def failure_from_early_error(state: State, task: Task, status: ExitStatus, at: float) -> Failure | None:
    """Return the failure of a program that printed an error of its own before it was stopped; None if it did not.

    Programs that hang after an error end only when they are stopped, and print no more.

    Args:
        at: when it ended.
    """
    facts = ExitFacts(exit_message="an error, before it was stopped")
    kind, cause = FailureClass.USER, FailureCause.PROGRAM
    failure = failure_from_task(state, task, cause, kind, facts, at, status=status)
    if not status.evidence or failure.is_consequence or failure.error_at >= task.since:
        return None
    silent = status.duration - (status.output_before_stop or 0.0)  # it may print why it is being stopped
    return failure if status.evidence[0].ago - silent <= _TRAILING_OUTPUT_SECONDS else None


def failure_from_missing_peer(state: State, task: Task, peer_failure: Failure, at: float) -> Failure:
    """Return the failure of a task that still runs, and for which all others timed out waiting.

    Args:
        peer_failure: the failure of one of the others.
    """
    assert peer_failure.diagnosis
    facts = ExitFacts(exit_message=f"it did not take part; {peer_failure.task} timed out waiting for it")
    failure = failure_from_task(state, task, FailureCause.PROGRAM, FailureClass.USER, facts, at)
    kind, advice = peer_failure.diagnosis.kind, peer_failure.diagnosis.advice
    return replace(failure, diagnosis=Diagnosis(kind=kind, meaning=LineMeaning.CAUSE, retry=True, advice=advice))


def failure_from_early_end(state: State, task: Task, peers: Sequence[TaskId]) -> Failure:
    """Return the failure of a task that ended with exit code 0 while others still computed, which failed then."""
    assert task.status
    assert task.ended_at is not None
    names = format_task_ranges(peers, _MAX_TASK_RANGES)
    facts, status = (
        ExitFacts(exit_message=f"it ended with exit code 0 while {names} still computed"),
        replace(task.status, evidence=()),
    )
    user, program = FailureClass.USER, FailureCause.PROGRAM
    failure = failure_from_task(state, task, program, user, facts, task.ended_at, status=status)
    # not `rendezvous`: the tasks had found each other, and would part at the same place again
    diagnosis = Diagnosis(kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=False, advice=UNEVEN_ADVICE)
    return replace(failure, diagnosis=diagnosis)


def failure_from_memory_limit(
    state: State, task: Task, end: str, at: float, status: ExitStatus | None = None
) -> Failure:
    """Return the failure of a task whose container the cluster or the node ended for exceeding its memory limit."""
    facts = ContainerFacts(container=ContainerLoss.OUT_OF_MEMORY, end=end)
    return failure_from_task(state, task, FailureCause.MEMORY, FailureClass.USER, facts, at, status=status)


def failure_from_loss(
    state: State, task: Task, end: ContainerEnded | None, at: float, how: ContainerLoss = ContainerLoss.LOST
) -> Failure:
    """Return the failure of a task whose container ended; None: it is not known why."""
    cause, kill, blameless = (end.cause, end.kill, end.blameless) if end else ("", None, False)
    facts = ContainerFacts(container=how, end=cause, kill=kill)
    kind = FailureClass.INFRASTRUCTURE
    return failure_from_task(state, task, FailureCause.LOST, kind, facts, at, blameless=blameless)


def failure_from_task(
    state: State,
    task: Task,
    cause: FailureCause,
    failure_class: FailureClass,
    facts: FailureFacts,
    at: float,
    *,
    status: ExitStatus | None = None,
    blameless: bool = False,
) -> Failure:
    """Return a failure of one task."""
    bug = find_executor_bug(facts.end) if isinstance(facts, ContainerFacts) else None
    if bug:
        cause, failure_class, blameless = FailureCause.BUG, FailureClass.PLATFORM, False
    ran = task.session == state.session and task.session > 0
    exit_code, signal = (status.code, status.signal) if status else (None, None)
    reason = describe_failure(cause, facts, task.id, task.host, exit_code, signal)
    if cause is FailureCause.PROGRAM and status and status.evidence:
        text = strip_modules(status.evidence[0].text)
        reason += f": {text}" if len(text) <= _MAX_REASON_CHARACTERS else f": {text[: _MAX_REASON_CHARACTERS - 1]}…"
    failure = Failure(
        failure_class=failure_class,
        cause=cause,
        facts=facts,
        reason=reason,
        session=state.session,
        at=at,
        task=task.id,
        host=task.host,
        exit_code=exit_code,
        signal=signal,
        tail=status.tail if status else (),
        log=f"logs/{LogName(*task.id, task.session, task.try_, ERR).file}" if ran else None,
        blameless=blameless,
        diagnosis=diagnose(cause, status, facts, state.spec.diagnosis_rules),
        step=status.step if status else None,
    )
    if bug and failure.diagnosis:
        executor_log = f"logs/{task.id.role}-{task.id.index}.executor.log"
        return replace(failure, log=executor_log, diagnosis=replace(failure.diagnosis, evidence=(bug,)))
    return add_remedy(state, failure, status)


def failure_from_timeout(state: State, task: Task, kind: DeadlineKind, at: float) -> Failure:
    """Return the failure of a task that exceeded `registration_timeout`, `startup_timeout` or `execution_timeout`."""
    timeouts = state.spec.timeouts
    cause, failure_class, limit = {
        DeadlineKind.REGISTRATION: (
            FailureCause.REGISTRATION_TIMEOUT,
            FailureClass.INFRASTRUCTURE,
            timeouts.registration,
        ),
        DeadlineKind.STARTUP: (FailureCause.STARTUP_TIMEOUT, FailureClass.USER, timeouts.startup),
        DeadlineKind.EXECUTION: (FailureCause.EXECUTION_TIMEOUT, FailureClass.USER, timeouts.execution),
    }[kind]
    blameless = kind is DeadlineKind.REGISTRATION
    return failure_from_task(state, task, cause, failure_class, TimeoutFacts(limit=limit or 0), at, blameless=blameless)


def failure_from_stall(state: State, stall: Stalled, at: float) -> Failure:
    """Return the failure of a session that makes no progress; its task is the one that the others wait for."""
    facts = MessageFacts(message=sentences.describe_stall(stall, at))
    task = state.tasks[stall.task] if stall.task else None
    if task is None:
        failure = failure_from_job(state, FailureCause.HANG, FailureClass.USER, facts, at)
    else:
        failure = failure_from_task(state, task, FailureCause.HANG, FailureClass.USER, facts, at)
    assert failure.diagnosis
    line = EvidenceLine(stream=STACKS, number=0, text=stall.frame, ago=0.0, rule="")
    has_left = task is not None and task.state is TaskState.SUCCEEDED
    advice = UNEVEN_ADVICE if has_left else f"see where each task waits: tony stacks {state.job_id}"
    evidence = (line,) if stall.frame else ()
    return replace(failure, diagnosis=replace(failure.diagnosis, evidence=evidence, advice=advice))


def failure_from_group(state: State, role: RoleState, rule: TimeoutAfter, at: float) -> Failure:
    """Return the failure of a role that exceeded its `timeout_after`."""
    late = next((task for task in role.members if task.state not in ENDED_TASK_STATES), role.members[0])
    facts = GroupTimeoutFacts(group=rule.group, limit=rule.limit, was_running=late.living)
    return failure_from_task(state, late, FailureCause.GROUP_TIMEOUT, FailureClass.USER, facts, at)


def failure_from_job_timeout(state: State, kind: DeadlineKind, at: float) -> Failure:
    """Return the failure of a job that exceeded `job_timeout` or `allocation_timeout`."""
    timeouts = state.spec.timeouts
    if kind is DeadlineKind.JOB:
        facts = TimeoutFacts(limit=timeouts.job or 0)
        return failure_from_job(state, FailureCause.JOB_TIMEOUT, FailureClass.USER, facts, at)
    missing = AllocationFacts(
        pending=sentences.describe_pending(state),
        releases=state.release_count,
        queue=state.queue_reason,
        limit=timeouts.allocation or 0,
    )
    return failure_from_job(state, FailureCause.ALLOCATION_TIMEOUT, FailureClass.INFRASTRUCTURE, missing, at)


def failure_from_kill(state: State, actor: Actor, at: float) -> Failure:
    """Return the failure of a job that was killed on request."""
    return replace(
        failure_from_job(
            state, FailureCause.KILLED, FailureClass.KILLED, MessageFacts(message=f"killed by {actor}"), at
        ),
        actor=actor,
    )


def failure_from_job(
    state: State, cause: FailureCause, failure_class: FailureClass, facts: FailureFacts, at: float
) -> Failure:
    """Return a failure that belongs to no single task."""
    reason, session = describe_failure(cause, facts), max(state.session, 0)
    failure = Failure(
        failure_class=failure_class,
        cause=cause,
        facts=facts,
        reason=reason,
        session=session,
        at=at,
        diagnosis=diagnose(cause, None, facts),
    )
    return add_remedy(state, failure)


def failure_from_refusal(message: str, session: int, at: float) -> Failure:
    """Return the failure of a job whose AM the scheduler can never start."""
    facts = MessageFacts(message=message)
    return Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        cause=FailureCause.REFUSED,
        facts=facts,
        reason=message,
        session=session,
        at=at,
        diagnosis=diagnose(FailureCause.REFUSED, None, facts),
    )
