"""Sentences for users: failures, reasons of restarts and stops, notes of tasks, and what a job waits for.

Nothing else words failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from tony.core.events import Stalled
from tony.core.reasons import (
    ContainerLost,
    GangReleased,
    LaterAttempt,
    LeftOutForLackOfContainers,
    LeftOutForOtherRoles,
    MissingExports,
    ProgramUnreachable,
    RestartAfterFailure,
    RestartOnRequest,
    RestartReason,
    StopReason,
    Success,
    TaskFailed,
    TaskNote,
)
from tony.core.state import RoleState, State, Task
from tony.model.failure import (
    AllocationFacts,
    ContainerFacts,
    ContainerLoss,
    ExitFacts,
    Failure,
    FailureCause,
    FailureFacts,
    GroupTimeoutFacts,
    MessageFacts,
    SilenceFacts,
    TimeoutFacts,
)
from tony.model.ids import TaskId, format_task_ranges
from tony.model.program_exit import ExitStatus
from tony.model.progress import Resumption
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState
from tony.units import format_duration, format_first, format_number

#: The cause of an external stop until the scheduler reports it.
_UNKNOWN_STOP = "its executor received a stop signal that the AM did not send"
#: The host of every task of a local job; messages leave it out.
_LOCAL_HOST = "127.0.0.1"


def describe_failure(
    cause: FailureCause,
    facts: FailureFacts,
    who: TaskId | None = None,
    host: str | None = None,
    exit_code: int | None = None,
    signal: str | None = None,
) -> str:
    """Return one sentence for users.

    Args:
        who: the task; None if it was no single one.
    """
    match facts:
        case ExitFacts(exit_message=message):
            return f"{_locate(who, host)}: {message or (f'killed by {signal}' if signal else f'exit code {exit_code}')}"
        case ContainerFacts():
            return _describe_container(facts, who, host)
        case SilenceFacts(silence=silence):
            return f"no heartbeat from {who} for {format_duration(silence)} (heartbeat_timeout)"
        case GroupTimeoutFacts(group=group, limit=limit, was_running=was_running):
            still = "was still running" if was_running else "had not started"
            after = f"{format_duration(limit)} after every task of group {group} had ended"
            return f"{who} {still} {after} (roles.{who and who.role}.timeout_after)"
        case AllocationFacts(pending=pending, releases=releases, queue=queue, limit=limit):
            released = f"released {releases} times so far (gang_patience)" if releases else ""
            known = "; ".join(filter(None, [pending, released, queue]))
            within = f"not every container was granted within {format_duration(limit)} (allocation_timeout)"
            return f"{within}: {known}" if known else within
        case TimeoutFacts(limit=limit):
            return _describe_timeout(cause, who, format_duration(limit))
        case MessageFacts(message=message):
            return message
        case _:
            assert_never(facts)


def names_host(failure: Failure) -> bool:
    """Return True if the sentence says on which host the task was; it never names this machine."""
    match failure.facts:
        case ExitFacts() | ContainerFacts(container=ContainerLoss.STOPPED | ContainerLoss.OUT_OF_MEMORY):
            return failure.host != _LOCAL_HOST
        case _:
            return False


def names_signal(failure: Failure) -> bool:
    """Return True if the sentence says which signal ended the program; where a limit is the cause it does not."""
    return isinstance(failure.facts, ExitFacts) and failure.cause is FailureCause.PROGRAM


def _locate(who: TaskId | None, host: str | None) -> str:
    return f"{who} on {host}" if host and host != _LOCAL_HOST else f"{who}"


def _describe_container(facts: ContainerFacts, who: TaskId | None, host: str | None) -> str:
    end = facts.end
    match facts.container:
        case ContainerLoss.STOPPED:
            return f"{_locate(who, host)} was stopped externally: {end or _UNKNOWN_STOP}"
        case ContainerLoss.OUT_OF_MEMORY:
            return f"{_locate(who, host)}: {end}"
        case ContainerLoss.LOST:
            return f"{who} was lost: {end}"
        case ContainerLoss.NOT_STARTED:
            ended = f"{facts.launches} containers of {who} ended before its program was started"
            return f"{ended}; the last one: {end}"
        case ContainerLoss.NOT_RESTARTED:
            return f"{who} lost its container before it could restart: {end}"


def _describe_timeout(cause: FailureCause, who: TaskId | None, limit: str) -> str:
    if cause is FailureCause.REGISTRATION_TIMEOUT:
        return f"{who} did not register within {limit} (registration_timeout) after its container was granted"
    if cause is FailureCause.STARTUP_TIMEOUT:
        return (
            f"{who} printed nothing within {limit} (startup_timeout) after its program started; "
            "most frameworks wait forever for a peer that does not connect"
        )
    if cause is FailureCause.EXECUTION_TIMEOUT:
        return f"{who} ran longer than {limit} (execution_timeout)"
    return f"the job ran longer than {limit} (job_timeout)"


def describe_opening(reason: RestartReason | None) -> str:
    """Return why a session opens.

    Args:
        reason: None for the first session.
    """
    return describe_restart(reason) if reason else "the job starts"


def describe_restart(reason: RestartReason) -> str:
    """Return why a task or the gang restarts."""
    match reason:
        case RestartAfterFailure(failure=failure, decision=decision):
            return f"{failure.reason} ({decision})"
        case RestartOnRequest(actor=actor):
            return f"restart requested by {actor}"
        case _:
            assert_never(reason)


def describe_stop(reason: StopReason | None) -> str:
    """Return why a program is stopped.

    Args:
        reason: None if the stop is only repeated.
    """
    match reason:
        case None:
            return "stopping"
        case Failure(reason=sentence):
            return sentence
        case Success(rule=rule):
            return rule
        case _:
            return describe_restart(reason)


def describe_note(note: TaskNote | None) -> str:
    """Return what users should know about a task; empty if there is nothing."""
    match note:
        case None:
            return ""
        case ContainerLost(cause=cause):
            return cause
        case GangReleased():
            return "its container was released: the gang was incomplete"
        case LeftOutForLackOfContainers(session=session, limit=limit, setting=setting):
            return f"left out of session {session}: no container within {format_duration(limit)} ({setting})"
        case LeftOutForOtherRoles(session=session, minimum=minimum):
            return f"left out of session {session}: its container was needed for other roles (min = {minimum})"
        case ExitStatus():
            return note.describe()
        case MissingExports(status=status, variables=missing):
            lacks = (_describe_missing_export(name, text) for name, text in missing)
            return "; ".join([status.describe(), *lacks])
        case TaskFailed(failure=failure):
            return failure.reason
        case ProgramUnreachable(failure=failure, seconds=seconds):
            return f"{failure.reason}; its program may keep running there for another {format_duration(seconds)}"
        case RestartAfterFailure():
            return describe_restart(note)
        case LaterAttempt(number=number, before=before):
            return f"task attempt {number}, after: {describe_note(before)}"
        case _:
            assert_never(note)


def _describe_missing_export(name: str, text: str) -> str:
    return f"no line of its output contains {text!r}, so {name} is not set (exports)"


#: Maximum number of hosts listed for a role.
_MAX_HOSTS = 10
#: Maximum number of task ranges (`worker:0-6`) listed.
_SHOWN_RANGES = 3
#: Programs that only take a little longer than their peers are not reported.
MIN_SILENCE_SECONDS = 60.0
#: Maximum number of tasks listed by name.
_MAX_NAMED_SILENT = 3
#: Maximum number of slow tasks described.
_MAX_STRAGGLERS = 3


def describe_pending(state: State) -> str:
    """Return `worker has 2 of 4 containers (on a, b), 2 are missing; ps has 1 of 1 (on a)`; empty if none is."""
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    if not any(len(role.waiting) for role in ready):
        return ""
    return "; ".join(_describe_containers(role) for role in ready)


def _describe_containers(role: RoleState) -> str:
    missing = len(role.waiting)
    text = f"{role.name} has {role.total - missing} of {role.total} containers"
    hosts = Counter(task.host for task in role.tasks if task.container and task.host)
    if hosts:
        names = [f"{host} ({count})" if count > 1 else host for host, count in list(hosts.items())[:_MAX_HOSTS]]
        more = len(hosts) - _MAX_HOSTS
        text += f" (on {', '.join(names)}{f' and {more} more hosts' if more > 0 else ''})"
    return text + (f", {missing} {'is' if missing == 1 else 'are'} missing" if missing else "")


def describe_unfinished(state: State) -> str:
    """Return a sentence such as `chief:0 has succeeded; still waiting for worker:0-1`.

    Empty while no tracked task has succeeded, or if none is waited for. Roles that others wait for with `after` are not
    mentioned: the next stage starting is expected.
    """
    if state.job is not JobState.RUNNING:
        return ""
    tracked = [role for role in state.roles.values() if role.kind is RoleKind.TRACKED and not role.finished]
    if not any(role.succeeded for role in tracked):
        return ""
    unfinished = [
        task.id
        for role in tracked
        if role.ended < role.total
        for task in role.members
        if task.state not in ENDED_TASK_STATES
    ]
    followed = {name for task in unfinished for name in state.roles[task.role].spec.after}
    succeeded: list[TaskId] = [
        task.id
        for role in tracked
        if role.succeeded and role.name not in followed
        for task in role.members
        if task.state is TaskState.SUCCEEDED
    ]
    if not succeeded or not unfinished:
        return ""
    verb = "has" if len(succeeded) == 1 else "have"
    return (
        f"{format_task_ranges(succeeded, _SHOWN_RANGES)} {verb} succeeded; "
        f"still waiting for {format_task_ranges(unfinished, _SHOWN_RANGES)}"
    )


def describe_stall(stall: Stalled, now: float) -> str:
    """Return for how long a session has made no progress, and where it waits."""
    return f"no {stall.what} for {format_duration(max(0.0, now - stall.since))}: {stall.reason}"


def describe_stragglers(state: State) -> str:
    """Return which tasks are slow and why; empty if none is."""
    found = [each for task in state.tasks.values() if (each := state.find_straggler(task))] if state.stragglers else []
    named = [f"{each.task} is slow: {each.reason}" for each in found[:_MAX_STRAGGLERS]]
    more = len(found) - len(named)
    return ". ".join([*named, *([f"{more} more tasks are slow"] if more > 0 else [])])


def describe_resumption(resumption: Resumption) -> str:
    """Return where programs continued after a restart, in one sentence."""
    first, reached = format_number(resumption.first_step), f"step {format_number(resumption.reached)} had been reached"
    if resumption.first_step <= resumption.earliest < resumption.reached:
        return f"began again at step {first}, where the job had begun, perhaps without a checkpoint; {reached}"
    return f"continued at step {first}; {reached}"


def describe_silent_peers(state: State, now: float, find_silence: Callable[[TaskId], float | None]) -> str:
    """Return one sentence about the first role of which some tasks succeeded and all others are silent since then.

    Args:
        find_silence: returns the seconds since a task's program printed a line or reported a step; None if it never
            has.

    Returns:
        An empty text if there is no such role.
    """
    if state.job is not JobState.RUNNING or state.spec.distributed_mode is DistributedMode.FCFS:
        return ""
    for role in state.roles.values():
        if role.kind in (RoleKind.TRACKED, RoleKind.UNTRACKED):
            found = _describe_silence(state, role, now, find_silence)
            if found:
                return found
    return ""


def _describe_silence(state: State, role: RoleState, now: float, find_silence: Callable[[TaskId], float | None]) -> str:
    ended = [t for t in role.members if t.state is TaskState.SUCCEEDED and t.session == state.session]
    running = [t for t in role.members if t.state is TaskState.RUNNING]
    if not ended or not running:
        return ""
    silence = now - max(task.since for task in ended)
    ages = [find_silence(task.id) for task in running]
    if silence < MIN_SILENCE_SECONDS or any(age is not None and age < silence for age in ages):
        return ""
    has = "has" if len(running) == 1 else "have"
    return (
        f"{_format_names(ended)} ended {format_duration(silence)} ago with exit code 0, and {_format_names(running)} "
        f"{has} printed and reported nothing since"
    )


def _format_names(tasks: list[Task]) -> str:
    names = [str(task.id) for task in tasks]
    if len(names) > _MAX_NAMED_SILENT:
        return format_first(names, _MAX_NAMED_SILENT)
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


#: Maximum number of tasks listed by name.
_MAX_NAMED_ABSENT = 5


def format_sizes(tasks: Mapping[str, int], absent: Mapping[str, Sequence[int]]) -> str:
    """Return a text such as `3 of 4 tasks of worker (without worker:3)`."""
    return ", ".join(_format_size(role, count, absent.get(role, ())) for role, count in tasks.items())


def _format_size(role: str, count: int, absent: Sequence[int]) -> str:
    if not absent:
        return f"all {count} tasks of {role}"
    names = format_first([f"{role}:{index}" for index in absent], _MAX_NAMED_ABSENT)
    return f"{count} of {count + len(absent)} tasks of {role} (without {names})"
