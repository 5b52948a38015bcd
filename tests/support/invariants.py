"""Invariants of the state machine. Checked in tests, not while a job runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tony.core.application import Application
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.policies import gang_size_policy
from tony.core.state import RoleState, State, Task
from tony.model.ids import TaskId
from tony.model.setting_choices import AfterCondition, DistributedMode, RestartScope, RoleKind
from tony.model.states import ENDED_TASK_STATES, JobState, TaskState


def find_violations(app: Application) -> list[str]:
    """Return every violated invariant, one sentence each. O(number of tasks)."""
    state = app.state
    return [
        *_check_counters(state),
        *_check_containers(state),
        *_check_programs(state),
        *_check_gang(state),
        *_check_sizes(state),
        *_check_setup(state),
        *_check_waits(state),
        *_check_timers(state),
        *_check_ends(app),
    ]


def _check_counters(state: State) -> list[str]:
    wrong = []
    for role in state.roles.values():
        real = Counter(task.state for task in role.tasks)
        if any(role.counts[s] != real[s] for s in TaskState):
            wrong.append(f"the counters of {role.name} are not its tasks' states")
        if role.started != sum(task.started for task in role.tasks) and not role.finished:
            wrong.append(f"{role.name} counts {role.started} started programs")
        never = sum(task.state in ENDED_TASK_STATES and not task.started for task in role.tasks)
        if role.unstarted != never and not role.finished:
            wrong.append(f"{role.name} counts {role.unstarted} tasks that ended and never ran, not {never}")
        if role.arrived != {task.id.index for task in role.tasks if task.state is TaskState.REGISTERED}:
            wrong.append(f"{role.name} has a wrong set of registered tasks")
        wrong += _check_requests(state, role)
    if state.living != sum(task.living for task in state.tasks.values()):
        wrong.append("the counter of running programs is wrong")
    return wrong


def _check_requests(state: State, role: RoleState) -> list[str]:
    """Check that containers are requested for exactly the tasks that need one."""
    waiting = set(role.waiting)
    need = {task.id.index for task in role.tasks if task.state is TaskState.REQUESTED}
    if state.job is JobState.RESTARTING:
        need = {index for index in waiting if not (role.tasks[index].container or role.tasks[index].living)}
    return [] if waiting == need else [f"containers of {role.name} are requested for {waiting}, and {need} need one"]


def _check_containers(state: State) -> list[str]:
    held = Counter(c.role for c in state.containers.values() if c.task and not c.is_released)
    wrong = [
        f"{r.name} counts {r.held} containers, not {held[r.name]}"
        for r in state.roles.values()
        if r.held != held[r.name]
    ]
    for container in state.containers.values():
        if container.task is None and not container.is_released:
            wrong.append(f"{container.id} belongs to no task and is not released")
        if container.task and state.tasks[container.task].container != container.id:
            wrong.append(f"{container.id} belongs to {container.task}, which has another container")
    for task in state.tasks.values():
        if task.container and task.container not in state.containers:
            wrong.append(f"{task.id} holds {task.container}, which has ended")
        if task.incarnation and not task.container:
            wrong.append(f"{task.id} has an executor without a container")
        wrong += _use(state, task)
    return wrong


def _use(state: State, task: Task) -> list[str]:
    """Check that no task runs in a released container."""
    if task.state not in (TaskState.STARTING, TaskState.REGISTERED, TaskState.RUNNING):
        return []
    if not task.container:
        return [] if task.living else [f"{task.id} is {task.state.value} without a container"]
    held = state.containers.get(task.container)
    return [f"{task.id} is {task.state.value} in {held.id}, which was released"] if held and held.is_released else []


def _check_programs(state: State) -> list[str]:
    wrong = []
    for task in state.tasks.values():
        if task.living and task.session != state.session:
            wrong.append(f"a program of {task.id} from session {task.session} runs in session {state.session}")
        if task.living and not task.container and task.container_ended_at is None:
            wrong.append(f"{task.id} runs without a container")
        if task.container_ended_at is not None and task.container_end is None:
            wrong.append(f"the container of {task.id} has ended, and nothing says how")
        if task.container_ended_at is not None and not task.living:
            wrong.append(f"the exit report of {task.id} is awaited, which is {task.state.value}")
        if task.state is TaskState.RUNNING and not state.active:
            wrong.append(f"{task.id} was not told to stop, and the job is {state.job.value}")
        if task.state is TaskState.STOPPING and state.active and not task.is_classified:
            wrong.append(f"{task.id} was stopped for no reason")
    return wrong


def _check_gang(state: State) -> list[str]:
    """Check that programs of a gang start together: a published role has no tasks that were not started with it."""
    if state.spec.distributed_mode is DistributedMode.FCFS:
        return []
    waiting = (TaskState.PENDING, TaskState.REQUESTED, TaskState.STARTING, TaskState.REGISTERED)
    return [
        f"{role.name} was published without all of its tasks"
        for role in state.roles.values()
        if role.version and role.kind is not RoleKind.SIDECAR
        if state.active or role.spec.restart is RestartScope.SESSION
        if any(task.state in waiting and task.retry_at is None for task in role.members)
    ]


def _check_sizes(state: State) -> list[str]:
    """Check that tasks are left out only of elastic roles, not below `min`, and that they hold nothing."""
    wrong = []
    for role in state.roles.values():
        least = role.spec.min_instances
        if role.left_out and (least is None or role.total < least):
            wrong.append(f"{role.name} has {role.total} tasks in this session, and needs at least {least}")
        for index in role.left_out:
            task = role.tasks[index]
            over = state.final is not None and task.state is TaskState.STOPPED
            if not (task.state is TaskState.PENDING or over):
                wrong.append(f"{task.id} is left out and {task.state.value}")
            if task.container and state.active:
                wrong.append(f"{task.id} is left out and has {task.container}")
    if state.session and state.chief and state.chief.index in state.roles[state.chief.role].left_out:
        wrong.append(f"{state.chief} is the chief and is left out")
    return wrong


def _check_setup(state: State) -> list[str]:
    """Check that setup roles end before anything else starts, are in no cluster spec, and keep no containers."""
    first = [role for role in state.roles.values() if role.kind is RoleKind.SETUP]
    wrong = [f"{role.name} is a setup role and was published" for role in first if role.version]
    undone = [role.name for role in first if not role.satisfies(AfterCondition.SUCCEEDED)]
    if undone:
        later = [role for role in state.roles.values() if role.kind is not RoleKind.SETUP and not role.finished]
        wrong += [f"{role.name} is ready, and {undone[0]} has not succeeded" for role in later if role.ready]
    wrong += [f"{role.name} has succeeded and holds containers" for role in first if role.held and role.finished]
    return wrong


def _check_waits(state: State) -> list[str]:
    """Check that an active job waits for something that can still happen."""
    if not state.active or not state.session:
        return []
    moving = (TaskState.REQUESTED, TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)
    wrong = []
    going_on = any(deadline.kind is DeadlineKind.TASK_RESTART for deadline in state.timers.all)
    if not going_on and not any(role.counts[s] for role in state.roles.values() for s in moving):
        wrong.append("the job waits for nothing that could happen")
    for role in state.roles.values():
        wanted_count = role.held + role.counts[TaskState.REQUESTED]
        if state.pausing and role.demand > role.held:
            wrong.append(f"{role.name} holds {role.held} containers, pauses and requests {role.demand}")
        if role.counts[TaskState.REQUESTED] and role.demand < wanted_count and not state.pausing:
            wrong.append(f"{role.name} needs {wanted_count} containers and requests {role.demand}")
        if role.blocked and role.kind is not RoleKind.SIDECAR:
            wrong.append(f"{role.name} can never start and the job continues")
    return wrong


def _check_timers(state: State) -> list[str]:
    """Check that no deadline outlives its purpose."""
    wrong = []
    for deadline in state.timers.all:
        task = state.tasks[deadline.subject] if isinstance(deadline.subject, TaskId) else None
        if task and not _OF_TASKS[deadline.kind](task):
            wrong.append(f"{deadline} is set and {task.id} is {task.state.value}")
        if deadline.kind in (DeadlineKind.STOP_LIMIT, DeadlineKind.FORCE_LIMIT) and state.active:
            wrong.append(f"{deadline} is set and nothing is being stopped")
        if (deadline.kind is DeadlineKind.GROUP or deadline in _OF_SHORTAGE) and not state.active:
            wrong.append(f"{deadline} is set and the session has ended")
    short = any(r.counts[TaskState.REQUESTED] for r in state.roles.values() if r.kind is not RoleKind.SIDECAR)
    wrong += [
        f"the {deadline} deadline is set and no container is missing"
        for deadline in _OF_SHORTAGE
        if deadline in state.timers and not short
    ]
    if not (state.active and gang_size_policy.is_elastic(state)):
        wrong += [
            f"{deadline} is set and no gang waits for more"
            for deadline in gang_size_policy.DEADLINES
            if deadline in state.timers
        ]
    if state.pausing and Deadline(DeadlineKind.GANG_PATIENCE) in state.timers:
        wrong.append("the gang pauses and waits for another container")
    return wrong


#: Deadlines that are set while containers are missing.
_OF_SHORTAGE = (
    Deadline(DeadlineKind.ALLOCATION),
    Deadline(DeadlineKind.GANG_PATIENCE),
    Deadline(DeadlineKind.GANG_PAUSE),
)
_BEFORE_A_TRY = (TaskState.REQUESTED, TaskState.STARTING, TaskState.REGISTERED)
_OF_TASKS: Mapping[DeadlineKind, Callable[[Task], bool]] = {
    DeadlineKind.REGISTRATION: lambda task: task.state is TaskState.STARTING,
    DeadlineKind.STARTUP: lambda task: task.living,
    DeadlineKind.EXECUTION: lambda task: task.living,
    DeadlineKind.REPORT: lambda task: task.container_ended_at is not None,
    DeadlineKind.LEASE: lambda task: task.living,
    DeadlineKind.STOP_CAUSE: lambda task: task.external_exit is not None,
    DeadlineKind.TASK_RESTART: lambda task: task.retry_at is not None and task.state in _BEFORE_A_TRY,
}


def _check_ends(app: Application) -> list[str]:
    state = app.state
    wrong = []
    if (state.final is not None) != (state.job is JobState.STOPPING or state.job.ended):
        wrong.append(f"the job is {state.job.value} and its result is {state.final}")
    if state.job.ended:
        if state.living or state.containers or state.timers.find_next():
            wrong.append("the job ended with programs, containers or deadlines left")
        if any(task.state not in ENDED_TASK_STATES for task in state.tasks.values()):
            wrong.append("the job ended with tasks that have not")
        if app.exit_code is None:
            wrong.append("the job ended without an exit code")
    if state.job is JobState.SUCCEEDED and state.final and state.final.failure:
        wrong.append("the job succeeded with a failure")
    return wrong
