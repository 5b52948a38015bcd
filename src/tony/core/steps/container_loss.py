"""Containers and executors that end or stop responding.

On a node that the cluster has given up, the end of a container is not confirmed, and its program may keep running. It
counts as running until it reports its end, that end is proved, or its executor must have stopped it: an executor
without contact to the AM stops its program when its lease expires. Only then is it replaced.
"""

from __future__ import annotations

from dataclasses import replace

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failure_builders
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.reasons import ContainerLost, ProgramUnreachable, RestartAfterFailure
from tony.core.sentences import describe_failure
from tony.core.state import ContainerIntent, GrantedContainer, State, Task
from tony.core.step_context import StepContext
from tony.core.steps import (
    container_demand,
    containers,
    gang,
    job_finish,
    node_exclusion,
    session_restart,
    task_exit,
)
from tony.core.steps.task_exit import is_bound
from tony.core.transitions import TaskMove
from tony.diagnosis.failure_diagnosis import diagnose
from tony.model.failure import (
    ClusterKill,
    ContainerFacts,
    ContainerLoss,
    Failure,
    FailureCause,
    FailureClass,
    FailureFacts,
    SilenceFacts,
)
from tony.model.states import JobState, TaskState

#: Seconds that a task's last report may arrive after its container's end: they take different routes.
REPORT_WAIT_SECONDS = 2.0

#: Fraction by which an executor's clock may be slower than the AM's. Quartz drifts by 0.01 %; this allows for clocks
#: of virtual machines that are being corrected.
DRIFT = 0.05
#: Seconds for an executor to notice that its lease has expired, even if its host has just resumed, and to kill what
#: does not stop; and for its watchdog to do so in its place.
SLACK_SECONDS = 30.0
_NOT_STARTED = (TaskState.STARTING, TaskState.REGISTERED)


def on_container_ended(ctx: StepContext, event: ev.ContainerEnded) -> None:
    """Handle the end of a container, which proves that its program has ended."""
    state = ctx.state
    container = state.containers.get(event.container)
    if container is None or _handle_unconfirmed_exit(ctx, container, event):
        return
    task = containers.remove_ended(ctx, container)
    if task and event.kill:
        _explain_external_stop(state, task, event)
    if task:
        _on_task_container_ended(ctx, task, container, event)
    role = state.roles.get(container.role)
    if role:
        container_demand.update_demand(ctx, role)
    job_finish.finish_if_idle(ctx)


def on_action_failed(ctx: StepContext, event: ev.ActionFailed) -> None:
    """Treat a container in which an action failed as ended."""
    if event.container:
        on_container_ended(ctx, ev.ContainerEnded(container=event.container, cause=event.cause))


def on_silent(ctx: StepContext, event: ev.Silent) -> None:
    """Kill the container of a silent executor before it is replaced: its program may still run."""
    state = ctx.state
    task = state.tasks.get(event.task)
    container = containers.find_container(state, task) if task else None
    if task is None or container is None or container.intent is ContainerIntent.KILLED or container.is_end_unconfirmed:
        return
    if not gang.is_current_executor(state, task.id, event.container, event.incarnation):
        return
    failure = _build_blameless_failure(ctx, task, FailureCause.SILENT, SilenceFacts(silence=event.silence))
    if task.state in _NOT_STARTED and state.active:
        _replace(ctx, task, container, failure.reason, discards=True)
        return
    containers.kill(ctx, container, failure.reason)
    if task.living and not task.is_classified:
        task_exit.on_failure(ctx, task, failure)


def _explain_external_stop(state: State, task: Task, end: ev.ContainerEnded) -> None:
    """Add the cause of an external stop, once the scheduler reports why the container was killed."""
    unexplained = ContainerFacts(container=ContainerLoss.STOPPED, end="")
    for number, each in enumerate(state.failures):
        if each.task != task.id or each.facts != unexplained:
            continue
        facts, cause, kind = replace(unexplained, end=end.cause, kill=end.kill), each.cause, each.failure_class
        if end.kill is ClusterKill.MEMORY_LIMIT:
            facts = replace(facts, container=ContainerLoss.OUT_OF_MEMORY)
            cause, kind = FailureCause.MEMORY, FailureClass.USER
        reason = describe_failure(cause, facts, each.task, each.host)
        found = replace(diagnose(cause, None, facts), evidence=each.diagnosis.evidence if each.diagnosis else ())
        better = replace(each, cause=cause, failure_class=kind, facts=facts, reason=reason, diagnosis=found)
        state.failures[number] = better
        if isinstance(state.restart, RestartAfterFailure) and state.restart.failure is each:
            state.restart = replace(state.restart, failure=better)


def _on_task_container_ended(
    ctx: StepContext, task: Task, container: GrantedContainer, event: ev.ContainerEnded
) -> None:
    state = ctx.state
    is_silent = event.confirmation is ev.EndConfirmation.SILENT
    if task.living:
        task.container_ended_at, task.container_end = ctx.now, event
        if task.external_exit is not None:
            task_exit.handle_external_stop(ctx, task)
        elif container.intent is ContainerIntent.KILLED or is_silent or not state.active:
            task_exit.on_lost(ctx, task)
        else:
            state.timers.set(Deadline(DeadlineKind.REPORT, task.id), ctx.now + REPORT_WAIT_SECONDS)
            if event.blameless:
                state.unexplained.add(task.id)
    elif task.state in _NOT_STARTED and state.active:
        _replace(ctx, task, container, event.cause, counts=not event.blameless)
    if state.job is JobState.RESTARTING:
        session_restart.request_early(state, task)


def _build_blameless_failure(ctx: StepContext, task: Task, cause: FailureCause, facts: FailureFacts) -> Failure:
    kind = FailureClass.INFRASTRUCTURE
    return failure_builders.failure_from_task(ctx.state, task, cause, kind, facts, ctx.now, blameless=True)


def _replace(
    ctx: StepContext,
    task: Task,
    container: GrantedContainer,
    cause: str,
    *,
    discards: bool = False,
    counts: bool = True,
) -> None:
    """Request another container for a task whose program was not started: there is no end to be proved before.

    Args:
        discards: the present one has not ended, and is no longer wanted.
        counts: the job may have been the cause, or the host: the number of replacements is limited, and a host where
            this happens repeatedly is excluded.
    """
    state = ctx.state
    state.timers.cancel(Deadline(DeadlineKind.REGISTRATION, task.id))
    task.launches += counts
    task.note = ContainerLost(cause=cause)
    bound = task.retry_at is not None and is_bound(state, task)
    is_relaunched = task.launches < containers.MAX_LAUNCHES and not bound
    if is_relaunched:  # first, or the demand would be lowered by one meanwhile
        container_demand.request(ctx, task, TaskMove.REPLACE)
        if counts:
            node_exclusion.count_host_failure(ctx, container.host)
    if discards:
        containers.discard(ctx, container, cause)
    gang.start_soon_if_enough(ctx)
    if not is_relaunched:
        how = ContainerLoss.NOT_RESTARTED if bound else ContainerLoss.NOT_STARTED
        facts = ContainerFacts(container=how, end=cause, launches=task.launches)
        task.retry_at = None
        kind = FailureCause.LOST if bound else FailureCause.LAUNCH
        task_exit.on_failure(ctx, task, _build_blameless_failure(ctx, task, kind, facts))


def compute_latest_exit_time(contact: float, lease: float, stop_grace: float) -> float:
    """Return when an executor has certainly stopped its program.

    Args:
        contact: when it was last heard; its lease began no later.
        lease: seconds, as reported to the executor.
        stop_grace: seconds that it gives its program to stop.
    """
    return contact + (lease + stop_grace) * (1 + DRIFT) + SLACK_SECONDS


def _handle_unconfirmed_exit(ctx: StepContext, container: GrantedContainer, event: ev.ContainerEnded) -> bool:
    """Return True if the program in a container must be waited for, after doing what can be done now."""
    state = ctx.state
    if container.is_end_unconfirmed:
        return event.is_unconfirmed  # a repetition
    task = state.tasks[container.task] if container.task else None
    if not event.is_unconfirmed or task is None or not task.living or task.external_exit is not None:
        return False
    until = compute_latest_exit_time(event.contact, event.lease, state.spec.stop_grace_of(task.id.role))
    if until <= ctx.now:
        return False
    container.is_end_unconfirmed = True
    state.timers.set(Deadline(DeadlineKind.LEASE, task.id), until)
    if container.intent is ContainerIntent.HELD:
        containers.mark_released(ctx, container)
    task.container_end = event
    lost = failure_builders.failure_from_loss(state, task, event, ctx.now)
    if task.state is TaskState.RUNNING and not task.is_classified:
        task_exit.on_failure(ctx, task, lost)
    if task.living:
        task.note = ProgramUnreachable(failure=lost, seconds=round(until - ctx.now))
    return True


def on_exit_report(ctx: StepContext, task: Task) -> None:
    """Forget the container of a program that reported its exit: the container's own end will not be reported."""
    held = containers.find_container(ctx.state, task)
    if held and held.is_end_unconfirmed:
        containers.remove_ended(ctx, held)
        if held.intent is ContainerIntent.RELEASED:
            ctx.request(act.Release(container=held.id))


def build_container_ended(ctx: StepContext, task: Task) -> ev.ContainerEnded | None:
    """Return the event that stands in for the proof, once the lease of the executor has expired."""
    held = containers.find_container(ctx.state, task)
    if held is None or task.container_end is None:
        return None
    cause, silent = task.container_end.cause, ev.EndConfirmation.SILENT
    return ev.ContainerEnded(container=held.id, cause=cause, blameless=True, confirmation=silent)
