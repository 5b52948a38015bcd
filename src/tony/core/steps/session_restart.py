"""A session is stopped and replaced by the next one, which opens once no program of the old one can be running."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import SESSION_DEADLINES, Deadline, DeadlineKind
from tony.core.policies import memory_policy, restart_policy
from tony.core.policies.restart_policy import Decision
from tony.core.reasons import RestartAfterFailure, RestartOnRequest, RestartReason
from tony.core.state import Restart, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import container_demand, containers, task_attempts
from tony.core.transitions import JobMove, TaskMove
from tony.model.failure import Failure, FailureCause
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState


def restart(ctx: StepContext, failure: Failure, decision: Decision) -> None:
    """Stop everything; the next session opens after the delay, once the end of all programs is proved."""
    record_restart(ctx, failure, decision)
    _stop_session(ctx, RestartAfterFailure(failure=failure, decision=decision.reason), decision.delay)


def on_restart(ctx: StepContext, event: ev.RestartRequested) -> None:
    """Open the next session on a user's request, if there is one to restart. It does not count as a restart."""
    if not ctx.state.may_be_restarted:
        return
    ctx.state.restarts_free += 1
    for role in ctx.state.roles.values():
        role.early = False
    _stop_session(ctx, RestartOnRequest(actor=event.actor), 0.0)


def _stop_session(ctx: StepContext, reason: RestartReason, delay: float) -> None:
    state = ctx.state
    state.move_job(JobMove.RESTART)
    state.restart = reason
    task_attempts.stop_all(ctx, reason)
    for task in state.tasks.values():
        if not task.living and task.state not in ENDED_TASK_STATES and task.state is not TaskState.PENDING:
            state.move_task(task, TaskMove.RESET, ctx.now)
            task.retry_at = None
    for deadline in [each for each in state.timers.all if each.kind in SESSION_DEADLINES]:
        state.timers.cancel(deadline)
    for role in state.roles.values():
        for task in role.tasks:
            request_early(state, task)
        container_demand.update_demand(ctx, role)
    if delay > 0:
        state.timers.set(Deadline(DeadlineKind.RESTART), ctx.now + delay)
    else:
        on_delay_end(ctx)


def record_restart(ctx: StepContext, failure: Failure, decision: Decision, alone: Task | None = None) -> None:
    """Record a restart of the gang, or of one task alone."""
    state = ctx.state
    raise_memory(ctx, failure)
    role = failure.task.role if failure.task else ""
    free = restart_policy.count_consecutive_restarts(state, ctx.now, alone)
    if decision.charged:
        state.restarts = [*restart_policy.select_counted_restarts(state, ctx.now)]
        state.restarts.append(Restart(ctx.now, role, alone.id if alone else None))
        state.restarts_charged += 1
        free = 0
    elif failure.cause is FailureCause.PORT_COLLISION:
        state.restarts_for_ports += 1
    else:
        state.restarts_free += 1
        free += 1
    if alone:
        alone.free = free
    else:
        state.free = free
    _note_uptime(state, failure, decision, alone=alone is not None)


def raise_memory(ctx: StepContext, failure: Failure) -> None:
    """Request more memory for the next containers of a role if one of its tasks was killed for memory."""
    memory = memory_policy.find_next_memory(ctx.state, failure)
    if failure.task and memory is not None and memory > ctx.state.roles[failure.task.role].memory:
        ctx.state.roles[failure.task.role].memory = memory
        ctx.request(act.SetMemory(role=failure.task.role, memory=memory))


def _note_uptime(state: State, failure: Failure, decision: Decision, *, alone: bool) -> None:
    """Record which role or task ended before `min_uptime`, and reset the others."""
    if not failure.task or not decision.charged:
        return
    task = state.tasks[failure.task]
    task.early, task.retried = decision.early, failure.fingerprint
    if alone:
        return
    for role in state.roles.values():
        role.early = decision.early and role.name == task.id.role


def request_early(state: State, task: Task) -> None:
    """Request a container for the next session while the old one still stops, if the task has none.

    Not in a job without restarts of its own: it has room for one stage after the other only, and may have to go back
    to an earlier one (see `session_start.on_opened`).
    """
    role = state.roles[task.id.role]
    will_run = role.ready and not role.finished and role.succeeded < role.total
    if will_run and task.container is None and task.launches < containers.MAX_LAUNCHES and state.spec.max_restarts:
        role.waiting.join(task.id.index)


def on_delay_end(ctx: StepContext) -> None:
    """Handle that the back-off has passed."""
    ctx.state.restart_due = True
    open_next_session_if_idle(ctx)


def open_next_session_if_idle(ctx: StepContext) -> None:
    """Open the next session once it is due and no program can run."""
    state = ctx.state
    if state.job is JobState.RESTARTING and state.restart_due and not state.living:
        state.timers.cancel(Deadline(DeadlineKind.STOP_LIMIT))
        state.timers.cancel(Deadline(DeadlineKind.FORCE_LIMIT))
        open_session(ctx, state.session + 1)


def open_session(ctx: StepContext, session: int) -> None:
    """Request the event that opens a session, once; `session_start.on_opened` continues from it."""
    if ctx.state.opening < session:
        ctx.state.opening = session
        ctx.request(act.OpenSession(session=session, reason=ctx.state.restart))
