"""Builds the job report from the state of the state machine. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tony.core.application import Application
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.job_warnings import describe_hidden_tracebacks
from tony.core.policies import gang_size_policy
from tony.core.policies.restart_policy import select_counted_restarts
from tony.core.reasons import RestartAfterFailure, RestartReason
from tony.core.sentences import (
    describe_note,
    describe_restart,
    describe_resumption,
    describe_silent_peers,
    describe_stall,
    describe_stragglers,
    describe_unfinished,
)
from tony.core.state import RoleState, State, Task
from tony.model.failure import Failure
from tony.model.ids import TaskId
from tony.model.job_report import AmReport, JobReport, RaisedMemory, Restarts, RoleSize, TaskReport, Used
from tony.model.job_spec import GIB
from tony.model.program_exit import ExitStatus
from tony.model.progress import Resumption, TaskProgress
from tony.model.setting_choices import RoleKind
from tony.model.states import JobState, TaskState
from tony.units import format_duration, format_first

#: Maximum number of missing tasks listed by name.
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Facts of a task outside the state machine: they change too often to be events.

    Attributes:
        last_output_age: seconds since the program's last line.
        last_line: that line.
        last_step_age: seconds since the last step that it reported.
        preparing: the container setup that runs before the executor starts; empty once that has been started.
        memory: resident bytes, last measured; None if not known.
    """

    last_output_age: float | None = None
    last_line: str = ""
    last_step_age: float | None = None
    preparing: str = ""
    memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """Input of a report that the state machine does not have.

    Attributes:
        find_progress: returns the progress of a task's current attempt; None if it has reported none.
        find_resumption: returns where that attempt began; None if it is the first, or that is not known.
    """

    folder: str
    user: str
    submitted: float
    live: Mapping[TaskId, Live]
    job_file: str = ""
    find_progress: Callable[[Task], TaskProgress | None] = lambda task: None
    find_resumption: Callable[[Task], Resumption | None] = lambda task: None


_NO_LIVE = Live()
_WAITS: Mapping[TaskState, str] = {
    TaskState.REQUESTED: "no container yet",
    TaskState.STARTING: "container started, has not reported yet",
    TaskState.REGISTERED: "registered, waiting for the rest of the gang",
}


def build_report(app: Application, now: float, context: ReportContext) -> JobReport:
    """Build the report of the job at `now`. O(number of tasks)."""
    state = app.state
    am = AmReport(pid=state.am_pid, host=state.am_host) if state.am_pid and not state.job.ended else None
    exit_code = app.exit_code
    waiting = _explain_waiting(state, now, context.live)
    silent = ""
    stall = state.stall if state.stall and state.stall.session == state.session and state.active else None
    stalled = not waiting and stall is not None
    if stalled and stall:
        waiting = describe_stall(stall, now)
    elif not waiting:
        silent = describe_silent_peers(state, now, lambda task: _find_silence(context.live.get(task, _NO_LIVE)))
    return JobReport(
        job=state.job_id,
        name=state.spec.name,
        state=state.job,
        session=state.session,
        attempt=state.attempt,
        exit_code=None if exit_code is None else int(exit_code),
        folder=context.folder,
        am=am,
        tasks=tuple(
            _build_task_report(state, task, now, context.live.get(task.id, _NO_LIVE), context.find_progress(task))
            for task in state.tasks.values()
        ),
        failure=state.final.failure if state.final else (state.failures[0] if state.failures else None),
        framework=state.spec.framework,
        scheduler=state.spec.scheduler,
        user=context.user,
        submitted=context.submitted,
        ended=None if state.ended_at is None else state.accepted_wall + state.ended_at,
        waiting=waiting or silent,
        unfinished="" if silent else describe_unfinished(state),  # both would name the same tasks
        stragglers=describe_stragglers(state),
        stalled=stalled or bool(silent),
        stalled_task=str(stall.task) if stall and stall.task else "",
        restarts=_build_restarts(state, now),
        session_reason=describe_restart(state.session_reason) if state.session_reason else "",
        previous_failure=_find_failure(state.session_reason),
        resumption=_describe_resumption(state, context.find_resumption),
        restarting=describe_restart(state.restart) if state.restart and state.job is JobState.RESTARTING else "",
        sizes=tuple(_build_role_size(role) for role in state.roles.values() if role.spec.min_instances is not None),
        warnings=describe_hidden_tracebacks(state),
        raised_memory=tuple(_list_raised_memory(state)),
        job_file=context.job_file,
        queue=state.spec.queue,
        tags=state.spec.all_tags,
        used=_sum_used(state, now),
        viewers=state.spec.viewers,
        editors=state.spec.editors,
    )


def _find_failure(reason: RestartReason | None) -> Failure | None:
    return reason.failure if isinstance(reason, RestartAfterFailure) else None


def _describe_resumption(state: State, find_resumption: Callable[[Task], Resumption | None]) -> str:
    """Return at which step the programs continued after a restart; empty if that is not known.

    Counts the role that had come furthest: others may count other steps.
    """
    if not state.restarts_charged and not state.restarts_for_ports and not state.restarts_free:
        return ""
    found = [(resumption, task.id.role) for task in state.tasks.values() if (resumption := find_resumption(task))]
    if not found:
        return ""
    furthest, role = max(found, key=lambda each: each[0].reached)
    first = min(resumption.first_step for resumption, each in found if each == role)
    return describe_resumption(replace(furthest, first_step=first))


def _find_silence(live: Live) -> float | None:
    """Return for how many seconds a program has printed and reported nothing; None if it never has."""
    return min((age for age in (live.last_output_age, live.last_step_age) if age is not None), default=None)


def _build_restarts(state: State, now: float) -> Restarts | None:
    free = state.restarts_for_ports + state.restarts_free
    if not state.restarts_charged and not free:
        return None
    return Restarts(charged=len(select_counted_restarts(state, now)), most=state.spec.max_restarts, free=free)


def _sum_used(state: State, now: float) -> Used:
    """Sum up the resources used; containers that have not ended count up to the job's end, or to now."""
    until = now if state.ended_at is None else state.ended_at
    seconds = {name: role.used for name, role in state.roles.items()}
    memory = sum(role.used_memory for role in state.roles.values())
    for container in state.containers.values():
        if container.role in seconds:
            held = max(0.0, until - container.since)
            seconds[container.role] += held
            memory += held * container.memory
    gpus = cores = 0.0
    for name, held in seconds.items():
        resources = state.roles[name].spec.resources
        gpus += held * resources.gpus
        cores += held * resources.vcores
    return Used(
        gpu_hours=round(gpus / 3600, 6), gb_hours=round(memory / GIB / 3600, 6), core_hours=round(cores / 3600, 6)
    )


def _list_raised_memory(state: State) -> Iterator[RaisedMemory]:
    for role in state.roles.values():
        requested = role.spec.resources.memory
        if role.memory != requested:
            yield RaisedMemory(role=role.name, memory=role.memory, requested=requested)


def _build_role_size(role: RoleState) -> RoleSize:
    left_out = tuple(role.tasks[index].id for index in sorted(role.left_out))
    least = role.spec.min_instances or role.spec.instances
    return RoleSize(role=role.name, tasks=role.total, least=least, most=role.spec.instances, left_out=left_out)


def _build_task_report(state: State, task: Task, now: float, live: Live, progress: TaskProgress | None) -> TaskReport:
    status, pending = task.status, _explain_pending(state, task, now, live)
    return TaskReport(
        task=str(task.id),
        role=task.id.role,
        index=task.id.index,
        state=task.state,
        host=task.host,
        pid=task.pid,
        executor_pid=task.executor_pid,
        session=task.session,
        try_=task.try_,
        exit_code=status.code if status else None,
        signal=status.signal if status else None,
        since=state.accepted_wall + task.since,
        last_output_age=live.last_output_age if task.living else None,
        step=progress.step if progress else None,
        total=progress.total if progress else None,
        rate=progress.rate if progress and task.living else None,
        memory=live.memory if task.living else None,
        note=pending or describe_note(task.note),
        note_repeats_exit=not pending and isinstance(task.note, ExitStatus) and task.note.is_bare,
    )


def _explain_pending(state: State, task: Task, now: float, live: Live) -> str:
    """Return why a task does not run yet; empty if there is nothing to report."""
    if task.state is TaskState.PENDING and state.session and state.active:
        role = state.roles[task.id.role]
        waits = [f"{name} has {c.value}" for name, c in role.spec.after.items() if not state.roles[name].satisfies(c)]
        never = "can never start: " if role.blocked else ""
        return f"{never}waiting until {' and '.join(waits)}" if waits else ""
    if task.retry_at is not None and task.state is TaskState.REGISTERED:
        return f"starts again in {format_duration(max(0.0, task.retry_at - now))}: {describe_note(task.note)}"
    why = _WAITS.get(task.state, "")
    if task.state is TaskState.STARTING and live.preparing:
        why = f"preparing the container: {live.preparing}"
    return f"{why} (before: {describe_note(task.note)})" if why and task.note else why


def _explain_waiting(state: State, now: float, live: Mapping[TaskId, Live]) -> str:
    """Return which tasks are missing and why, in one sentence; empty if the job waits for nothing."""
    if state.pausing:
        delay = format_duration(max(0.0, (state.timers.get(Deadline(DeadlineKind.GANG_PAUSE)) or now) - now))
        return f"the gang was incomplete for too long and released its containers; it requests them again in {delay}"
    if state.queue_reason and not state.final:
        return state.queue_reason + _shrink_deadline(state, now)
    if state.job is JobState.RESTARTING:
        due = state.timers.get(Deadline(DeadlineKind.RESTART))
        if state.living:
            return f"waiting for {state.living} program(s) of session {state.session} to stop"
        return f"session {state.session + 1} opens in {format_duration(max(0.0, due - now))}" if due else ""
    if state.job is JobState.STOPPING:
        stopping = [str(task.id) for task in state.tasks.values() if task.living]
        return f"waiting for {format_first(stopping, _MAX_NAMED)} to stop" if stopping else "releasing containers"
    if not state.active:
        return ""
    missing = [t for role in state.roles.values() if _is_holding_up(role) for t in role.tasks if _is_absent(t)]
    if not missing:
        return ""
    missing.sort(key=lambda task: task.since)
    first = missing[0]
    seen = live.get(first.id, _NO_LIVE)
    names = format_first([str(task.id) for task in missing], _MAX_NAMED)
    text = f"waiting {format_duration(max(0.0, now - first.since))} for {names}: "
    text += _explain_pending(state, first, now, seen) + (f"; last line: {seen.last_line}" if seen.last_line else "")
    return text + _shrink_deadline(state, now)


def _shrink_deadline(state: State, now: float) -> str:
    """Return when an elastic gang starts without the tasks that have no container."""
    deadline, _ = gang_size_policy.choose_wait(state)
    due = state.timers.get(deadline)
    if (
        due is None
        or not gang_size_policy.has_enough(state)
        or not any(len(r.waiting) for r in gang_size_policy.find_forming_roles(state))
    ):
        return ""
    left = format_duration(max(0.0, due - now))
    return f"; starts without the missing tasks in {left} ({deadline.kind.setting})"


def _is_holding_up(role: RoleState) -> bool:
    return role.ready and role.kind is not RoleKind.SIDECAR and role.registered < role.total


def _is_absent(task: Task) -> bool:
    return task.state in (TaskState.REQUESTED, TaskState.STARTING)
