"""The demand for containers: how many each role waits for, and the deadlines until they are granted."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.core.state import RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.transitions import JobMove, TaskMove
from tony.model.setting_choices import DistributedMode, RoleKind
from tony.model.states import JobState

_ALLOCATION = Deadline(DeadlineKind.ALLOCATION)
_GANG_PATIENCE = Deadline(DeadlineKind.GANG_PATIENCE)


def request(ctx: StepContext, task: Task, move: TaskMove) -> None:
    """Mark a task as waiting for a container. `update_demand` adjusts the request to the scheduler."""
    state = ctx.state
    role = state.roles[task.id.role]
    task.host = None
    state.move_task(task, move, ctx.now)
    if not lacks_containers(role):
        return
    limit = state.spec.timeouts.allocation
    if limit and _ALLOCATION not in state.timers:
        state.timers.set(_ALLOCATION, ctx.now + limit)
    if _GANG_PATIENCE not in state.timers:
        start_gang_timeout(ctx)


def request_other(ctx: StepContext, task: Task) -> None:
    """Request another container for a task. Do it before the old one is discarded, or the demand would be lowered."""
    ctx.state.timers.cancel(Deadline(DeadlineKind.REGISTRATION, task.id))
    request(ctx, task, TaskMove.REPLACE)


def update_demand(ctx: StepContext, role: RoleState) -> None:
    """Adjust the request to what is held and waited for: the scheduler must not replace containers no longer needed."""
    waiting = 0 if ctx.state.pausing else len(role.waiting)
    needed = role.held + waiting
    if needed < role.demand or (waiting and needed > role.demand):
        set_demand(ctx, role, needed)


def set_demand(ctx: StepContext, role: RoleState, total: int) -> None:
    """Request a total number of containers for a role, if it has changed."""
    if role.demand != total:
        role.demand = total
        ctx.request(act.SetDemand(role=role.name, total=total))


def start_gang_timeout(ctx: StepContext) -> None:
    """Start the time in which one more of the missing containers must be granted (see `gang.release_partial_gang`)."""
    state = ctx.state
    limit = state.spec.gang_patience
    together = state.gangs or state.spec.distributed_mode is not DistributedMode.GANG
    if limit and not together and state.active and not state.pausing:
        state.timers.set(
            _GANG_PATIENCE,
            ctx.now + gang_size_policy.compute_gang_timeout(limit, state.release_count, state.job_id),
        )


def on_queued(ctx: StepContext, event: ev.Queued) -> None:
    """Record why the scheduler grants nothing yet, or that it no longer queues the job."""
    state = ctx.state
    state.queue_reason = "" if state.final else event.reason
    if event.reason and state.job is JobState.STARTING:
        state.move_job(JobMove.QUEUE)
    elif not event.reason and state.job is JobState.QUEUED:
        state.move_job(JobMove.ADMIT)


def clear_deadlines(ctx: StepContext) -> None:
    """Clear the allocation deadlines: no container is missing without which the job cannot continue."""
    state = ctx.state
    state.queue_reason = ""
    state.release_count = 0
    state.timers.cancel(_ALLOCATION)
    state.timers.cancel(_GANG_PATIENCE)


def is_incomplete(state: State) -> bool:
    """Return True if containers are missing without which the job cannot continue."""
    return any(lacks_containers(role) for role in state.roles.values())


def lacks_containers(role: RoleState) -> bool:
    """Return True if a role waits for containers without which the job cannot continue."""
    return role.kind is not RoleKind.SIDECAR and len(role.waiting) > 0
