"""Containers: how many a role wants, who gets one, and how they are given back."""

from __future__ import annotations

from tony.core import actions as act
from tony.core import events as ev
from tony.core.policies import gang_backoff
from tony.core.state import Container, ContainerIntent, RoleState, State, Task
from tony.core.step_context import StepContext
from tony.core.transitions import JobMove, TaskMove
from tony.model.states import DistributedMode, JobState, RoleKind, TaskState

#: A container that goes away before its program was started is replaced, uncharged; so often per task and session.
LAUNCHES = 3
#: The note of a task whose container others may have now, until its own is asked for again.
GIVEN_BACK = "its container was given back: the gang was not complete"

# --- asked for --------------------------------------------------------------------------------------------------------


def request(turn: StepContext, task: Task, move: TaskMove) -> None:
    """The task waits for a container from now on. `settle_demand` tells the scheduler."""
    state = turn.state
    role = state.roles[task.id.role]
    task.host = None
    state.move_task(task, move, turn.now)
    if not _is_short(role):
        return
    limit = state.spec.timeouts.allocation
    if limit and "allocation" not in state.timers:
        state.timers.set("allocation", turn.now + limit)
    if "gang-patience" not in state.timers:
        expect_another(turn)


def settle_demand(turn: StepContext, role: RoleState) -> None:
    """Asks for what is held and waited for: the scheduler must not replace what nobody wants any more."""
    waiting = 0 if turn.state.pausing else len(role.waiting)
    wanted = role.held + waiting
    if wanted < role.demand or (waiting and wanted > role.demand):
        demand(turn, role, wanted)


def demand(turn: StepContext, role: RoleState, total: int) -> None:
    """Tells the scheduler how many containers a role shall have in all, if that is news."""
    if role.demand != total:
        role.demand = total
        turn.ask(act.SetDemand(role=role.name, total=total))


def expect_another(turn: StepContext) -> None:
    """Begins the time in which one more of the missing containers must be granted (see `gang_deadlock`)."""
    state = turn.state
    limit = state.spec.gang_patience
    together = state.gangs or state.spec.distributed_mode is not DistributedMode.GANG
    if limit and not together and state.active and not state.pausing:
        state.timers.set("gang-patience", turn.now + gang_backoff.gang_timeout(limit, state.given_back, state.job_id))


def queued(turn: StepContext, event: ev.Queued) -> None:
    """The scheduler says why there is nothing yet, or that this is over."""
    state = turn.state
    state.queue_reason = "" if state.final else event.reason
    if event.reason and state.job is JobState.STARTING:
        state.move_job(JobMove.QUEUE)
    elif not event.reason and state.job is JobState.QUEUED:
        state.move_job(JobMove.ADMIT)


# --- granted ----------------------------------------------------------------------------------------------------------


def granted(turn: StepContext, event: ev.Granted) -> None:
    """A container for the first task for which one is sought; without such a task it is given back."""
    state = turn.state
    if event.container in state.containers or event.container in state.gone:
        return
    if state.job.ended:
        state.gone.add(event.container)
        turn.ask(act.Release(container=event.container))
        return
    container = Container(event.container, event.role, event.host, since=turn.now)
    state.containers[container.id] = container
    if state.reconciling:
        state.found.add(container.id)
    role = state.roles.get(event.role)
    index = role.waiting.take() if role and not state.pausing else None
    if role is None or index is None:
        give_back(turn, container)
        return
    if state.job is JobState.QUEUED:
        state.move_job(JobMove.ADMIT)
    if state.spec.timeouts.job and state.session == 1 and "job" not in state.timers:
        state.timers.set("job", turn.now + state.spec.timeouts.job)
    _place(turn, role, role.tasks[index], container)
    if _is_short(role) or is_incomplete(state):
        expect_another(turn)
    else:
        complete(turn)


def complete(turn: StepContext) -> None:
    """Nothing is missing without which the job cannot go on."""
    state = turn.state
    state.queue_reason = ""
    state.given_back = 0
    state.timers.cancel("allocation")
    state.timers.cancel("gang-patience")


def _place(turn: StepContext, role: RoleState, task: Task, container: Container) -> None:
    container.task, task.container, task.host = task.id, container.id, container.host
    role.held += 1
    task.incarnation = task.executor_pid = None
    if task.state is TaskState.REQUESTED:
        turn.state.move_task(task, TaskMove.PLACE, turn.now)
        expect_registration(turn, task)
    else:  # it comes ahead of the next session, which will renew it
        task.launches += 1
    turn.ask(act.Launch(container=container.id, task=task.id, session=turn.state.session))


def is_incomplete(state: State) -> bool:
    """Whether containers are missing without which the job cannot go on."""
    return any(_is_short(role) for role in state.roles.values())


def _is_short(role: RoleState) -> bool:
    """Whether a role waits for containers without which the job cannot go on."""
    return role.kind is not RoleKind.SIDECAR and len(role.waiting) > 0


def expect_registration(turn: StepContext, task: Task) -> None:
    """Begins the time in which the executor of a task must register."""
    limit = turn.state.spec.timeouts.registration
    if limit:
        turn.state.timers.set(f"registration:{task.name}", turn.now + limit)


# --- given back -------------------------------------------------------------------------------------------------------


def held_by(state: State, task: Task) -> Container | None:
    """The container of a task, as long as it has not ended."""
    return state.containers[task.container] if task.container else None


def give_back(turn: StepContext, container: Container) -> None:
    """Asks the executor to end and the scheduler to take the container, once."""
    if container.hold is ContainerIntent.HELD:
        disown(turn, container)
        turn.ask(act.Release(container=container.id))


def disown(turn: StepContext, container: Container) -> None:
    """Counts on a held container no more; if its executor comes back, it is told to end."""
    container.hold = ContainerIntent.RELEASED
    _no_longer_held(turn, container)


def give_back_all(turn: StepContext, role: RoleState) -> None:
    """Gives back what the tasks of a role hold; none of them runs a program."""
    for task in role.tasks:
        held = held_by(turn.state, task)
        if held:
            give_back(turn, held)


def end_by_force(turn: StepContext, container: Container, reason: str) -> None:
    """Has a container ended at once, whatever runs in it, once."""
    before, container.hold = container.hold, ContainerIntent.KILLED
    if before is ContainerIntent.HELD:
        _no_longer_held(turn, container)
    if before is not ContainerIntent.KILLED:
        turn.ask(act.Kill(container=container.id, reason=reason))


def _no_longer_held(turn: StepContext, container: Container) -> None:
    role = turn.state.roles.get(container.role)
    if role:
        role.held -= container.task is not None
        settle_demand(turn, role)


def forget(turn: StepContext, container: Container) -> Task | None:
    """A container has ended; answers the task that was in it. The demand is not settled yet."""
    state = turn.state
    del state.containers[container.id]
    state.gone.add(container.id)
    if role := state.roles.get(container.role):
        role.used += turn.now - container.since
    if container.hold is ContainerIntent.HELD:
        state.roles[container.role].held -= 1
    return detach(state, container)


def detach(state: State, container: Container) -> Task | None:
    """The task that was in a container has nothing to do with it any more; answers that task."""
    task = state.tasks[container.task] if container.task else None
    if task:
        container.task = task.container = task.incarnation = task.executor_pid = None
    return task
