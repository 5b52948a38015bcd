"""What executors report of their programs: begun, first line, over. (That they are ready: see `gang_start`.)

A report may come twice, late, or of a try that is over; it then changes nothing.
"""

from __future__ import annotations

from tony.core import events as ev
from tony.core.state import State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, role_readiness, task_attempts, task_exit, unconfirmed_exit
from tony.core.transitions import TaskMove
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.states import TaskState

#: Seconds that the end of its container may come after a program's that somebody else had stopped: it says who.
WORD_WAIT = 5.0

_NEVER_RAN = (ExitReason.NOT_STARTED, ExitReason.LAUNCH_FAILED)


def started(turn: StepContext, event: ev.Started) -> None:
    """The program runs. Others may have waited for that."""
    state = turn.state
    task = task_attempts.current(state, event.task, event.session, event.try_)
    if task is None or task.pid is not None:
        return
    task.pid = event.pid
    limit = state.spec.timeouts.startup
    if limit and task.state is TaskState.RUNNING:
        state.timers.set(f"startup:{task.name}", turn.now + limit)
    if not task.started:
        _seen_to_run(turn, task)


def _seen_to_run(turn: StepContext, task: Task) -> None:
    role = turn.state.roles[task.id.role]
    task.started = True
    role.started += 1
    if role.started == role.total:
        role_readiness.advance(turn)


def first_output(turn: StepContext, event: ev.FirstOutput) -> None:
    """The program is past its start-up."""
    task = task_attempts.current(turn.state, event.task, event.session, event.try_)
    if task:
        turn.state.timers.cancel(f"startup:{task.name}")


def _take_exports(state: State, task: Task, event: ev.Exited) -> None:
    """Keeps what a program that succeeded hands on; says what it should have and did not.

    Of several tasks the first counts: reports come in any order, and the same job should start the same programs.
    """
    role, index = task.id
    for name, text in state.roles[role].spec.exports.items():
        value = event.exports.get(name)
        if value is not None:
            own = state.exports.setdefault(role, {})
            if name not in own or index <= own[name][0]:
                own[name] = index, value
        else:
            task.note += f"; no line of its output holds {text.strip()!r}, so {name} is not set (exports)"


def exited(turn: StepContext, event: ev.Exited) -> None:
    """The program is over, and this is how."""
    state = turn.state
    task = task_attempts.current(state, event.task, event.session, event.try_)
    if task is None or task.outside is not None:
        return
    unconfirmed_exit.reported(turn, task)
    status, at = event.status, min(event.at, turn.now)
    if not task.started and status.reason not in _NEVER_RAN:
        _seen_to_run(turn, task)
    task.status, task.note = status, status.describe()
    if task.judged:  # its own end is no second failure, and no success
        task_exit.over(turn, task, TaskMove.FAIL, at)
        return
    if status.ok:
        task_attempts.over(turn, task, TaskMove.SUCCEED, at)
        _take_exports(state, task, event)
    elif task.state is TaskState.STOPPING and status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED):
        task_attempts.over(turn, task, TaskMove.END, at)
    elif _was_stopped_externally(state, task, status) or _another_waits(state, task):
        task.outside, task.outside_at = status, at
        state.unexplained.add(task.id)
        state.timers.cancel(f"startup:{task.name}")
        state.timers.set(f"word:{task.name}", turn.now + WORD_WAIT)
        return
    else:
        task_exit.failed(turn, task, status, at)
        return
    task_exit.task_over(turn, task)


def _another_waits(state: State, task: Task) -> bool:
    """Whether another task's end is still to be explained: that may be what this one has died of."""
    return state.active and task.gone_at is None and len(state.unexplained) > (task.id in state.unexplained)


def _was_stopped_externally(state: State, task: Task, status: ExitStatus) -> bool:
    """Whether a program was stopped that nobody here wanted to stop, and its container's end will tell who did."""
    held = containers.held_by(state, task)
    coming = held is not None and not held.given_back and task.gone_at is None
    return status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED) and state.active and coming
