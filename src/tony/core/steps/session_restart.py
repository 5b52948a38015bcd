"""A session is given up for the next one, which opens when no program of the old one can live any more."""

from __future__ import annotations

from tony.core import actions as act
from tony.core.policies import gang_size_policy
from tony.core.policies import restart_policy as restart_policy
from tony.core.policies.restart_policy import Decision
from tony.core.state import Restart, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import containers, program_stop
from tony.core.transitions import JobMove, TaskMove
from tony.model.ids import TaskId
from tony.model.job_report import Failure
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState

#: Why the first session opens.
FIRST = "the job begins"
#: Deadlines that mean something within one session only.
_OF_A_SESSION = frozenset(
    {
        *("registration", "group", "startup", "execution", "allocation", "gang-patience", "gang-pause", "again"),
        *gang_size_policy.TIMERS,
    }
)


def restart(turn: StepContext, failure: Failure, decision: Decision) -> None:
    """Stops everything; the next session opens after the decision's delay, and not before all is proved to be over."""
    book(turn, failure, decision)
    _give_up(turn, f"{failure.reason} ({decision.reason})", decision.delay)


def ordered(turn: StepContext, reason: str) -> None:
    """Somebody wants the next session. Nothing is charged for that, and nobody has failed."""
    turn.state.restarts_free += 1
    for role in turn.state.roles.values():
        role.early = False
    _give_up(turn, reason, 0.0)


def _give_up(turn: StepContext, reason: str, delay: float) -> None:
    state = turn.state
    state.move_job(JobMove.RESTART)
    state.restart_reason = reason
    program_stop.stop_all(turn, state.restart_reason)
    for task in state.tasks.values():
        if not task.living and task.state not in ENDED_TASK_STATES and task.state is not TaskState.PENDING:
            state.move_task(task, TaskMove.RESET, turn.now)
            task.again = None
    for name in [name for name in state.timers.all if name.partition(":")[0] in _OF_A_SESSION]:
        state.timers.cancel(name)
    for role in state.roles.values():
        for task in role.tasks:
            seek(state, task)
        containers.settle_demand(turn, role)
    if delay > 0:
        state.timers.set("restart", turn.now + delay)
    else:
        delay_is_over(turn)


def book(turn: StepContext, failure: Failure, decision: Decision, alone: Task | None = None) -> None:
    """Keeps in mind that something starts again: the gang, or one task alone."""
    state = turn.state
    role = TaskId.parse(failure.task).role if failure.task else ""
    free = restart_policy.consecutive_restarts(state, turn.now, alone)
    if decision.charged:
        state.restarts = [*restart_policy.counting(state, turn.now)]
        state.restarts.append(Restart(turn.now, role, alone.name if alone else ""))
        state.restarts_charged += 1
        free = 0
    elif failure.cause == "port-collision":
        state.restarts_for_ports += 1
    else:
        state.restarts_free += 1
        free += 1
    if alone:
        alone.free = free
    else:
        state.free = free
    _note_uptime(state, failure, decision, alone=alone is not None)


def _note_uptime(state: State, failure: Failure, decision: Decision, *, alone: bool) -> None:
    """Who ended early; whoever ran long enough, or ended by other means, has not."""
    if not failure.task or not decision.charged:
        return
    task = state.tasks[TaskId.parse(failure.task)]
    task.early = decision.early
    if alone:
        return
    for role in state.roles.values():
        role.early = decision.early and role.name == task.id.role


def seek(state: State, task: Task) -> None:
    """Has a container sought for the next session, if the task has none, while the old one still stops.

    Not in a job without restarts of its own: it has no room for more than its stages need one after the other, and may
    have to go back to an earlier one (see `session_start.opened`).
    """
    role = state.roles[task.id.role]
    runs_again = role.ready and not role.finished and role.succeeded < role.total
    if runs_again and task.container is None and task.launches < containers.LAUNCHES and state.spec.max_restarts:
        role.waiting.join(task.id.index)


def delay_is_over(turn: StepContext) -> None:
    """The back-off has passed."""
    turn.state.restart_due = True
    open_next_session_if_idle(turn)


def open_next_session_if_idle(turn: StepContext) -> None:
    """Opens the next session once it is due and no program can live."""
    state = turn.state
    if state.job is JobState.RESTARTING and state.restart_due and not state.living:
        for name in ("stop-limit", "force-limit"):
            state.timers.cancel(name)
        open_session(turn, state.session + 1, state.restart_reason)


def open_session(turn: StepContext, session: int, reason: str) -> None:
    """Has a session's beginning logged, once; `session_start.opened` goes on when that is done."""
    if turn.state.opening < session:
        turn.state.opening = session
        turn.ask(act.OpenSession(session=session, reason=reason))
