"""An application master begins its life: the first of a job, or one that takes over where its predecessor died.

A later one has the log, so it knows what was decided; it does not know which of that was done, nor what has happened
since. So it first finds out what is left, judging nothing meanwhile; then it says all again that must be so. Executors
are told what concerns them when they come back (`core/reattach.py`).
"""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.state import Container, ContainerIntent, State
from tony.core.step_context import StepContext
from tony.core.steps import container_loss, containers, elastic_start, job_finish, session_restart
from tony.core.transitions import JobMove, TaskMove
from tony.errors import InvalidTransition
from tony.model.states import JobState, TaskState

#: Seconds by which a deadline that comes while nothing may be judged is put off.
_LATER = 1.0
#: Seconds that executors have to come back, before the deadlines that are about their silence count again.
COMING_BACK = 10.0
#: Deadlines for something that an executor should have said meanwhile.
_FOR_EXECUTORS = frozenset({"registration", "report", "startup", "stop-limit", "force-limit"})


def started(turn: StepContext, event: ev.AttemptStarted) -> None:
    """An application master lives. What is left of its predecessors is asked for first."""
    state = turn.state
    if event.attempt <= state.attempt:
        raise InvalidTransition(f"attempt {event.attempt} after attempt {state.attempt}")
    if state.attempt == 0:
        state.accepted_wall = event.wall - turn.now
        state.move_job(JobMove.BEGIN)
    state.attempt, state.settings = event.attempt, event.settings
    state.am_pid, state.am_host = event.pid, event.host
    state.gangs, state.chooses = event.gangs, event.chooses
    if state.job.ended:  # its predecessor died before it had told so
        job_finish.tell(turn)
        return
    state.reconciling, state.inherited = True, state.opening
    state.found.clear()
    _stretch_leases(turn)
    state.queue_reason = ""  # that of a scheduler which knew the other one
    state.avoided.clear()
    for spec in state.specs.values():
        turn.ask(act.Publish(spec=spec))
    turn.ask(act.Reconcile())


def _stretch_leases(turn: StepContext) -> None:
    """How long nobody was there is known only by the clocks of two machines, which may differ: it does not count for
    programs whose end nobody sees."""
    timers = turn.state.timers
    away = max(0.0, turn.now - turn.state.latest)
    for name, due in list(timers.all.items()):
        if name.startswith("lease:"):
            timers.set(name, due + away)


def containers_found(turn: StepContext, event: ev.ContainersFound) -> None:
    """What is left of earlier attempts. What was for nobody we know is ended."""
    state = turn.state
    for container in () if state.job.ended else event.containers:
        if container in state.containers:
            state.found.add(container)
        else:
            turn.ask(act.Kill(container=container, reason="nobody knows what it was for"))


def reconcile_closed(turn: StepContext, event: ev.ReconcileClosed) -> None:
    """All that was left has shown itself: the first session may open, or the present one goes on."""
    state = turn.state
    if not state.reconciling or state.job.ended:
        return
    state.reconciling = False
    _give_time(turn)
    for container in list(state.containers.values()):
        if container.id not in state.found and not container.presumed:
            _is_gone(turn, container)
    state.found.clear()
    for container in list(state.containers.values()):
        _go_on(turn, container)
    for host in sorted(state.excluded):
        turn.ask(act.Exclude(host=host))
    for role in state.roles.values():
        if role.demand:
            turn.ask(act.SetDemand(role=role.name, total=role.demand))
    elastic_start.settle(turn)
    _say_again(turn)


def put_off(turn: StepContext, name: str) -> bool:
    """Whether a deadline has to wait, since nobody knows yet what has come of what it is for."""
    if turn.state.reconciling:
        turn.state.timers.set(name, turn.now + _LATER)
    return turn.state.reconciling


def _give_time(turn: StepContext) -> None:
    timers = turn.state.timers
    for name, due in list(timers.all.items()):
        if name.partition(":")[0] in _FOR_EXECUTORS and turn.state.attempt > 1:
            timers.set(name, max(due, turn.now + COMING_BACK))


def _is_gone(turn: StepContext, container: Container) -> None:
    before = turn.state.attempt - 1
    cause = f"it did not outlive the application master of attempt {before}"
    ended = ev.ContainerEnded(container=container.id, cause=cause, blameless=True, silent=True)
    container_loss.container_ended(turn, ended)


def _go_on(turn: StepContext, container: Container) -> None:
    """A container that has outlived our predecessor."""
    if container.presumed:
        return  # nobody would hear it
    if container.hold is ContainerIntent.RELEASED:
        turn.ask(act.Release(container=container.id))
    elif container.hold is ContainerIntent.KILLED:
        turn.ask(act.Kill(container=container.id, reason="it was to be ended before"))
    elif container.task and turn.state.tasks[container.task].incarnation is None:
        _replace(turn, turn.state, container)


def _replace(turn: StepContext, state: State, container: Container) -> None:
    """Nobody has heard of its executor, which may not be there, or does not know where we are. Nothing ran in it."""
    assert container.task is not None
    task = state.tasks[container.task]
    if task.state is TaskState.STARTING and state.active:
        state.timers.cancel(f"registration:{task.name}")
        containers.request(turn, task, TaskMove.REPLACE)
    containers.end_by_force(turn, container, "its executor had not registered when the application master died")
    containers.detach(state, container)
    if state.job is JobState.RESTARTING:
        session_restart.seek(state, task)
    containers.settle_demand(turn, state.roles[container.role])


def _say_again(turn: StepContext) -> None:
    """What the machine itself waits for; the session that our predecessor had asked for may never have opened."""
    state = turn.state
    if state.job is JobState.STOPPING:
        job_finish.finish_if_idle(turn)
    elif state.job.ended:
        return
    elif state.inherited == state.opening > state.session:
        turn.ask(act.OpenSession(session=state.opening, reason=state.restart_reason or session_restart.FIRST))
    elif state.session == 0 and state.active:
        session_restart.open_session(turn, 1, session_restart.FIRST)
    else:
        session_restart.open_next_session_if_idle(turn)
