"""An AM attempt starts: the first of a job, or one that takes over from a dead one.

A later attempt has the log, so it knows what was decided, but not which of that was done, nor what has happened since.
It first finds out what is left, without classifying failures meanwhile, and then repeats the requests that still hold.
Executors learn what concerns them when they reconnect (`core/application.py`).
"""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import EXECUTOR_DEADLINES, Deadline, DeadlineKind
from tony.core.state import ContainerIntent, GrantedContainer, State
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, container_loss, containers, gang, job_finish, session_restart
from tony.core.transitions import JobMove
from tony.errors import InvalidTransitionError
from tony.model.states import JobState, TaskState

#: Seconds by which a deadline is postponed during recovery.
_POSTPONE_SECONDS = 1.0
#: Seconds that executors have to reconnect before deadlines for their reports count again.
RECONNECT_SECONDS = 10.0


def on_started(ctx: StepContext, event: ev.AttemptStarted) -> None:
    """Start an AM attempt: reconcile with what earlier attempts left."""
    state = ctx.state
    if event.attempt <= state.attempt:
        raise InvalidTransitionError(f"AM attempt {event.attempt} after AM attempt {state.attempt}")
    if state.attempt == 0:
        state.accepted_wall = event.wall - ctx.now
        state.move_job(JobMove.BEGIN)
    state.attempt, state.settings = event.attempt, event.settings
    state.am_pid, state.am_host = event.pid, event.host
    state.gangs, state.chooses, state.enlists = event.gangs, event.chooses, event.enlists
    if state.job.ended:  # the previous attempt died before it reported that
        job_finish.request_finish(ctx)
        return
    state.reconciling, state.inherited = True, state.opening
    state.found.clear()
    _stretch_leases(ctx)
    state.queue_reason = ""  # it was for the previous attempt
    state.avoided.clear()
    for spec in state.specs.values():
        ctx.request(act.Publish(spec=spec))
    ctx.request(act.Reconcile())


def _stretch_leases(ctx: StepContext) -> None:
    """Extend leases by the time without an AM. It is computed from the clocks of two machines, which may differ."""
    timers = ctx.state.timers
    away = max(0.0, ctx.now - ctx.state.latest)
    for deadline, due in list(timers.all.items()):
        if deadline.kind is DeadlineKind.LEASE:
            timers.set(deadline, due + away)


def on_containers_found(ctx: StepContext, event: ev.ContainersFound) -> None:
    """Note containers of earlier AM attempts; kill those that the log does not know."""
    state = ctx.state
    for container in () if state.job.ended else event.containers:
        if container in state.containers:
            state.found.add(container)
        else:
            ctx.request(act.Kill(container=container, reason="the event log does not know it"))


def on_reconcile_closed(ctx: StepContext, event: ev.ReconcileClosed) -> None:
    """Continue once all remaining containers are known: open the first session, or resume the current one."""
    state = ctx.state
    if not state.reconciling or state.job.ended:
        return
    state.reconciling = False
    _extend_executor_deadlines(ctx)
    for container in list(state.containers.values()):
        if container.id not in state.found and not container.is_end_unconfirmed:
            _mark_lost(ctx, container)
    state.found.clear()
    for container in list(state.containers.values()):
        _repeat_request(ctx, container)
    for host in sorted(state.excluded):
        ctx.request(act.Exclude(host=host))
    for role in state.roles.values():
        if role.memory != role.spec.resources.memory:
            ctx.request(act.SetMemory(role=role.name, memory=role.memory))
        if role.demand:
            ctx.request(act.SetDemand(role=role.name, total=role.demand))
    gang.start_soon_if_enough(ctx)
    _resume(ctx)


def postpone(ctx: StepContext, deadline: Deadline) -> bool:
    """Postpone a deadline while recovery is under way; return True if it was."""
    if ctx.state.reconciling:
        ctx.state.timers.set(deadline, ctx.now + _POSTPONE_SECONDS)
    return ctx.state.reconciling


def _extend_executor_deadlines(ctx: StepContext) -> None:
    timers = ctx.state.timers
    for deadline, due in list(timers.all.items()):
        if deadline.kind in EXECUTOR_DEADLINES and ctx.state.attempt > 1:
            timers.set(deadline, max(due, ctx.now + RECONNECT_SECONDS))


def _mark_lost(ctx: StepContext, container: GrantedContainer) -> None:
    before = ctx.state.attempt - 1
    cause = f"it ended while no application master ran, after AM attempt {before}"
    silent = ev.EndConfirmation.SILENT
    ended = ev.ContainerEnded(container=container.id, cause=cause, blameless=True, confirmation=silent)
    container_loss.on_container_ended(ctx, ended)


def _repeat_request(ctx: StepContext, container: GrantedContainer) -> None:
    """Repeat what was requested for a container of the previous AM attempt."""
    if container.is_end_unconfirmed:
        return  # it cannot be reached
    if container.intent is ContainerIntent.RELEASED:
        ctx.request(act.Release(container=container.id))
    elif container.intent is ContainerIntent.KILLED:
        ctx.request(act.Kill(container=container.id, reason="it was to be killed before"))
    elif container.task and ctx.state.tasks[container.task].incarnation is None:
        if ctx.state.enlists:  # its executor may still be starting, and has no task yet
            session = ctx.state.session
            launch = act.Launch(container=container.id, task=container.task, session=session, memory=container.memory)
            ctx.request(launch)
        else:
            _replace(ctx, ctx.state, container)


def _replace(ctx: StepContext, state: State, container: GrantedContainer) -> None:
    """Replace a container whose executor never registered: it may not exist or not know the address. Nothing ran."""
    assert container.task is not None
    task = state.tasks[container.task]
    if task.state is TaskState.STARTING and state.active:
        container_demand.request_other(ctx, task)
    containers.discard(ctx, container, "its executor had not registered when the application master died")
    if state.job is JobState.RESTARTING:
        session_restart.request_early(state, task)
    container_demand.update_demand(ctx, state.roles[container.role])


def _resume(ctx: StepContext) -> None:
    """Repeat what the state machine itself waits for; the session that was requested last may never have opened."""
    state = ctx.state
    if state.job is JobState.STOPPING:
        job_finish.finish_if_idle(ctx)
    elif state.job.ended:
        return
    elif state.inherited == state.opening > state.session:
        ctx.request(act.OpenSession(session=state.opening, reason=state.restart))
    elif state.session == 0 and state.active:
        session_restart.open_session(ctx, 1)
    else:
        session_restart.open_next_session_if_idle(ctx)
