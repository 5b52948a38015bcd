"""One try of a user's program, from its start to the proof of its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tony.core import actions as act
from tony.core import failure_text
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.transitions import JobMove, TaskMove
from tony.model.ids import TaskId
from tony.model.job_report import Failure, FailureClass
from tony.model.states import ENDED_TASK_STATES, JobState, RoleKind, TaskState


def start(turn: StepContext, tasks: Iterable[Task], version: int) -> None:
    """Starts the programs of registered tasks under one version of the cluster spec."""
    state = turn.state
    if state.job is not JobState.RUNNING:
        state.move_job(JobMove.RUN)
    limit = state.spec.timeouts.execution
    handed_on: dict[str, Mapping[str, str]] = {}
    for task in tasks:
        state.move_task(task, TaskMove.START, turn.now)
        task.try_ = task.try_ + 1 if task.session == state.session else 1
        task.session, task.version, task.began = state.session, version, turn.now
        task.note = f"try {task.try_}, for before: {task.note}" if task.try_ > 1 else ""
        task.again = None
        if limit:
            state.timers.set(f"execution:{task.name}", turn.now + limit)
        role = task.id.role
        if state.began is None and state.roles[role].kind is not RoleKind.SETUP:
            state.began = turn.now
        if role not in handed_on:
            handed_on[role] = state.variables_of(role)
        start = act.Start(
            task=task.id, session=task.session, try_=task.try_, version=version, variables=handed_on[role]
        )
        turn.ask(start)


def current(state: State, task: TaskId, session: int, try_: int) -> Task | None:
    """The task, if a report is about its living try; counts the report as refused otherwise."""
    known = state.tasks.get(task)
    if known and known.living and known.session == session and known.try_ == try_:
        return known
    state.refused += 1
    return None


def stop(turn: StepContext, task: Task, grace: float, reason: str) -> None:
    """Tells a living program to stop; may be told again with less patience."""
    if task.state is TaskState.RUNNING:
        turn.state.move_task(task, TaskMove.STOP, turn.now)
    turn.ask(act.Stop(task=task.id, session=task.session, try_=task.try_, grace=grace, reason=reason))


def over(turn: StepContext, task: Task, move: TaskMove, at: float) -> None:
    """The program cannot live any more: that is proved. It ended at `at`."""
    rest(turn, task, at)
    close(turn, task, move)


def rest(turn: StepContext, task: Task, at: float) -> None:
    """Nothing of a try is waited for any more; it ended at `at`."""
    for kind in ("execution", "startup", "report", "word", "lease"):
        turn.state.timers.cancel(f"{kind}:{task.name}")
    task.gone_at = task.pid = task.outside = None
    turn.state.unexplained.discard(task.id)
    task.outside_at = 0.0
    task.ended_at = at


def close(turn: StepContext, task: Task, move: TaskMove) -> None:
    """The task is over in this session, whether or not its program ever ran. What is over stays as it is."""
    task.again = None
    if task.state not in ENDED_TASK_STATES:
        turn.state.move_task(task, move, turn.now)
        turn.state.roles[task.id.role].unstarted += not task.started


def lost(turn: StepContext, task: Task) -> Failure | None:
    """The container of a living program is gone and its report will not come; answers the failure that this is.

    None if it was to go, or was judged already.
    """
    failure = lost_by(turn, task)
    at = turn.now if task.gone_at is None else task.gone_at
    stopped = failure is None and not task.judged
    if not task.judged:
        task.note = task.gone_why
    over(turn, task, TaskMove.END if stopped else TaskMove.LOSE, at)
    return failure


def lost_by(turn: StepContext, task: Task) -> Failure | None:
    """The failure that the loss of a living program is; None as of `lost`. Reads only."""
    state = turn.state
    at = turn.now if task.gone_at is None else task.gone_at
    if task.judged or (task.state is TaskState.STOPPING and at >= task.since):
        return None
    if task.over_memory:
        return failure_text.failure_from_memory_limit(state, task, task.gone_why, at)
    reason = f"{task.id} was lost: {task.gone_why}"
    return failure_text.failure_from_task(
        state, task, "lost", FailureClass.INFRASTRUCTURE, reason, at, blameless=task.blameless
    )


def note_late(state: State, task: Task, failure: Failure) -> None:
    """Keeps a failure that comes after the decision: it may have been the first cause, or stands beside it."""
    if not state.job.ended and state.roles[task.id.role].kind is not RoleKind.SIDECAR:
        state.failures.append(failure)
