"""The state of a job. Only the steps change it, all other code reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tony.core.deadline import Deadline, DeadlineKind, Timers
from tony.core.events import ContainerEnded, Stalled, StragglerFound
from tony.core.reasons import RestartReason, TaskNote
from tony.core.transitions import JobMove, TaskMove, find_next_job_state, find_next_task_state
from tony.model.failure import Failure
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import AfterCondition, RoleKind
from tony.model.states import LIVING_TASK_STATES, JobState, TaskState

#: States of a job in which programs may be started.
_ACTIVE = (JobState.RUNNING, JobState.STARTING, JobState.QUEUED)
_GANG_PAUSE = Deadline(DeadlineKind.GANG_PAUSE)


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart that counts against `max_restarts`.

    Attributes:
        role: the role of the task that failed; empty if it was no single one.
        alone: the task, if only that restarted; else None.
    """

    at: float
    role: str
    alone: TaskId | None = None


@dataclass(slots=True)
class Task:
    """One task: what was decided about it, and what executors and the scheduler have reported.

    Attributes:
        since: when its state last changed.

        session, try_, version: of its last `Start`; 0 before the first. started_at: when that was sent.
        retry_at: when it may restart alone in this session; None if that is not decided.
        is_classified: a failure of this task attempt was classified already; its exit is no second one.
        early: its last task attempt ended before `min_uptime`; free: consecutive attempts that do not count.
        retried: fingerprint of the failure for which something restarted last.
        note: what users should know about it.

        container, host: where its executor was launched.
        memory: bytes of its last container; 0 before the first.
        listens: where a later AM attempt can call its executor; empty if the executor connects by itself.
        started: its program was seen to run in this session; pid: its process id, as long as it runs.
        launches: containers that ended in this session before the program was started.
        container_ended_at: when its container ended while the program ran, until its report arrives or is given up.
        container_end: what was reported of that end, or of one that is not confirmed.
        external_exit: how its program ended, if it was stopped externally and the scheduler has not yet reported why.
        external_exit_at: when it ended.
    """

    id: TaskId
    state: TaskState = TaskState.PENDING
    since: float = 0.0
    # Decided:
    session: int = 0
    try_: int = 0
    version: int = 0
    started_at: float = 0.0
    retry_at: float | None = None
    is_classified: bool = False
    early: bool = False
    free: int = 0
    retried: str = ""
    note: TaskNote | None = None
    # Observed:
    container: str | None = None
    host: str | None = None
    memory: int = 0
    incarnation: str | None = None
    executor_pid: int | None = None
    listens: str = ""
    address: str | None = None
    tb_port: int | None = None
    started: bool = False
    pid: int | None = None
    launches: int = 0
    container_ended_at: float | None = None
    container_end: ContainerEnded | None = None
    external_exit: ExitStatus | None = None
    external_exit_at: float = 0.0
    status: ExitStatus | None = None
    ended_at: float | None = None

    @property
    def living(self) -> bool:
        """True from the `Start` until it is proved that the program has ended."""
        return self.state in LIVING_TASK_STATES


class ContainerIntent(Enum):
    """Intended use of a container."""

    HELD = "held"
    RELEASED = "released"  #: Release was requested
    KILLED = "killed"  #: Kill was requested, perhaps after Release


@dataclass(slots=True)
class GrantedContainer:
    """One container that was granted and has not ended.

    Attributes:
        task: the task whose executor was launched in it; None if none was, or if that task no longer needs it.
        is_end_unconfirmed: its end cannot be confirmed; see `steps/container_loss.py`.
        since: when it was granted.
        memory: its bytes, as requested.
    """

    id: str
    role: str
    host: str
    task: TaskId | None = None
    intent: ContainerIntent = ContainerIntent.HELD
    is_end_unconfirmed: bool = False
    since: float = 0.0
    memory: int = 0

    @property
    def is_released(self) -> bool:
        """True once it is released: nothing more is started in it, but it has not ended yet."""
        return self.intent is not ContainerIntent.HELD


class WaitingIndexes(list[int]):
    """The indexes of the tasks that wait for a container, in order, each once."""

    def join(self, index: int) -> None:
        """Add an index, unless it is there already."""
        place = bisect_left(self, index)
        if place == len(self) or self[place] != index:
            self.insert(place, index)

    def leave(self, index: int) -> None:
        """Remove an index, if it is there."""
        place = bisect_left(self, index)
        if place < len(self) and self[place] == index:
            del self[place]


@dataclass(slots=True)
class RoleState:
    """One role: what was decided about it, and what is known of its tasks, counted for the policies.

    Attributes:
        kind: as in the job, or `untracked` after an ignored group timeout.

        ready: its `after` is satisfied in this session.
        blocked: it can never become ready in this session, and that was reported.
        finished: it succeeded in an earlier session and is not run again.
        version: the spec version under which its programs were started in this session; 0 before.
        demand: containers last requested from the scheduler.
        waiting: indexes of the tasks that need a container: those that are `requested`, and between two sessions those
            that will be.
        left_out: indexes of the tasks that do not take part in this session.
        memory: bytes requested for each further container; more than in the job after a task was killed for memory.

        counts: number of tasks in each state.
        started: tasks whose program has been started in this session.
        unstarted: tasks that ended in this session without being started.
        early: in the last session, one of its programs ended before `min_uptime`.
        held: containers of its tasks that were not released.
        arrived: indexes of the tasks that are `registered` now: avoids a search among thousands.
        used: container seconds of the containers that have ended.
        used_memory: their byte seconds.
    """

    name: str
    spec: Role
    kind: RoleKind
    tasks: list[Task]
    counts: dict[TaskState, int]
    # Decided:
    ready: bool = False
    blocked: bool = False
    finished: bool = False
    version: int = 0
    demand: int = 0
    waiting: WaitingIndexes = field(default_factory=WaitingIndexes)
    left_out: set[int] = field(default_factory=set)
    memory: int = 0
    # Observed:
    started: int = 0
    unstarted: int = 0
    early: bool = False
    held: int = 0
    arrived: set[int] = field(default_factory=set)
    used: float = 0.0
    used_memory: float = 0.0

    @property
    def total(self) -> int:
        """The number of tasks that take part."""
        return len(self.tasks) - len(self.left_out)

    @property
    def members(self) -> list[Task]:
        """The tasks that take part."""
        return [task for task in self.tasks if task.id.index not in self.left_out] if self.left_out else self.tasks

    @property
    def ended(self) -> int:
        """The number of tasks that have ended in this session, whatever the result."""
        counts = self.counts
        return (
            counts[TaskState.SUCCEEDED] + counts[TaskState.FAILED] + counts[TaskState.STOPPED] + counts[TaskState.LOST]
        )

    @property
    def succeeded(self) -> int:
        return self.counts[TaskState.SUCCEEDED]

    @property
    def registered(self) -> int:
        """The number of tasks that are registered in this session, or past that."""
        counts = self.counts
        before = counts[TaskState.PENDING] + counts[TaskState.REQUESTED] + counts[TaskState.STARTING]
        return len(self.tasks) - before

    def satisfies(self, condition: AfterCondition) -> bool:
        """Return True if a role that waits for this one may start."""
        if self.finished:
            return True
        if condition is AfterCondition.SUCCEEDED:
            return self.succeeded == self.total
        if condition is AfterCondition.ENDED:
            return self.ended == self.total
        return self.started == self.total


@dataclass(slots=True)
class Final:
    """The job's result, decided once; `no_restart_reason`: empty if no restart was considered."""

    state: JobState
    failure: Failure | None
    no_restart_reason: str = ""


class State:
    """The whole state of one job: what was decided, and what was observed.

    Args:
        on_moved: called with each task whose state has changed.

    Attributes:
        containers: id -> those that were granted and have not ended; ended_ids: ids of those that have.

        attempt: the current AM attempt.
        settings: digest of the resolved job.
        accepted_wall: seconds since 1970 when the job was accepted, a label.
        gangs: the scheduler grants all containers of a gang together or none of them.
        chooses: the scheduler can keep containers off a host.
        enlists: executors start before they know their task, so a launch can be repeated.
        reconciling: recovery is finding out what outlived the previous AM attempt: nothing counts as lost meanwhile.
        found: containers that were found meanwhile.
        inherited: the session that the previous AM attempt had requested to open.

        session: the current session (one run of the gang), 0 before the first.
        session_reason: why it opened; None for the first.
        opening: the highest session that was requested to open.
        chief: the chief of this session, if there is one.
        version: of the cluster spec, within the session; specs: version -> what was published under it.
        started_at: when the first program of this session was started, setup roles apart; None before.
        restart: why the next session opens; None before the first restart. restart_due: its back-off has passed.
        restarts: those that count against `max_restarts` now.
        restarts_charged, restarts_for_ports, restarts_free: how many there were: that count, for taken ports, and for
            other causes outside the job.
        free: consecutive restarts of the gang that do not count.
        release_count: how often in a row the gang has released the containers of an incomplete gang.
        excluded: hosts that get no further container for a while.
        final: the result, once it is decided.

        latest: when the last event came.
        queue_reason: why there is no room, in the scheduler's words; empty when there is.
        living: number of programs that may be running.
        hosts: host -> when tasks failed on it recently.
        avoided: hosts on which the scheduler confirmed that it allocates none: no session begins there.
        failures: those that count in this session, in the order in which they were reported.
        suspects: failures that look like consequences of another one, which is waited for.
        tolerated: failures of tracked tasks in this session that do not count as long as others may succeed.
        unexplained: tasks that were stopped externally, or lost their container, until the cause is known.
        exports: role -> variable -> (index of the task that exported it, value).
        stall: of a session that makes no progress; None once it continues.
        stragglers: the task attempts that are or were slow, see `find_straggler`.
        refused: number of events about something that does not, or no longer, exist.
        ended_at: when the job ended.
    """

    def __init__(self, job_id: str, spec: JobSpec, on_moved: Callable[[Task], None] | None = None) -> None:
        self.job_id = job_id
        self.spec = spec
        self.job = JobState.SUBMITTED
        self.roles: dict[str, RoleState] = {}
        self.tasks: dict[TaskId, Task] = {}
        self.containers: dict[str, GrantedContainer] = {}
        self.ended_ids: set[str] = set()
        self.timers = Timers()
        self._on_moved = on_moved
        # The AM attempt, its scheduler and its recovery:
        self.attempt = 0
        self.am_pid, self.am_host = 0, ""
        self.settings = ""
        self.accepted_wall = 0.0
        self.gangs = True
        self.chooses = False
        self.enlists = False
        self.reconciling = False
        self.found: set[str] = set()
        self.inherited = 0
        # Decided:
        self.session = 0
        self.session_reason: RestartReason | None = None
        self.opening = 0
        self.chief = spec.chief
        self.version = 0
        self.specs: dict[int, ClusterSpec] = {}
        self.started_at: float | None = None
        self.restart: RestartReason | None = None
        self.restart_due = False
        self.restarts: list[Restart] = []
        self.restarts_charged = 0
        self.restarts_for_ports = 0
        self.restarts_free = 0
        self.free = 0
        self.release_count = 0
        self.excluded: set[str] = set()
        self.final: Final | None = None
        # Observed:
        self.latest = 0.0
        self.queue_reason = ""
        self.living = 0
        self.hosts: dict[str, list[float]] = {}
        self.avoided: set[str] = set()
        self.failures: list[Failure] = []
        self.suspects: list[Failure] = []
        self.tolerated: list[Failure] = []
        self.unexplained: set[TaskId] = set()
        self.exports: dict[str, dict[str, tuple[int, str]]] = {}
        self.stall: Stalled | None = None
        self.stragglers: dict[TaskId, StragglerFound] = {}
        self.refused = 0
        self.ended_at: float | None = None
        for name, role in spec.effective_roles.items():
            tasks = [Task(TaskId(name, index)) for index in range(role.instances)]
            counts = dict.fromkeys(TaskState, 0)
            counts[TaskState.PENDING] = len(tasks)
            self.roles[name] = RoleState(name, role, role.kind, tasks, counts, memory=role.resources.memory)
            self.tasks.update({task.id: task for task in tasks})

    def find_straggler(self, task: Task) -> StragglerFound | None:
        """Return why the current attempt of a task counts as slow; None if it does not."""
        found = self.stragglers.get(task.id)
        return found if found and (found.session, found.try_) == (task.session, task.try_) else None

    def move_task(self, task: Task, move: TaskMove, now: float) -> None:
        """Apply one transition of the task table and update the role's counters."""
        before = task.state
        target = find_next_task_state(before, move, task.id)
        role = self.roles[task.id.role]
        role.counts[before] -= 1
        role.counts[target] += 1
        if target is TaskState.REQUESTED:
            role.waiting.join(task.id.index)
        elif target is TaskState.REGISTERED:
            role.arrived.add(task.id.index)
        if before is TaskState.REQUESTED:
            role.waiting.leave(task.id.index)
        elif before is TaskState.REGISTERED:
            role.arrived.discard(task.id.index)
        task.state = target
        task.since = now
        self.living += (target in LIVING_TASK_STATES) - (before in LIVING_TASK_STATES)
        if self._on_moved:
            self._on_moved(task)

    def move_job(self, move: JobMove) -> None:
        """Apply one transition of the job table."""
        self.job = find_next_job_state(self.job, move)

    def find_first_chief(self) -> TaskId | None:
        """Return the job's chief; in a role with tasks left out, the first that takes part."""
        chief = self.spec.chief
        return self.roles[chief.role].members[0].id if chief else None

    @property
    def active(self) -> bool:
        """True as long as programs may be started: not restarting, stopping or ended."""
        return self.job in _ACTIVE

    def collect_variables(self, role: str) -> Mapping[str, str]:
        """Return the variables that other roles export to a program of this role."""
        others = [own for other, own in self.exports.items() if other != role]
        return {name: text for own in others for name, (_, text) in own.items()}

    @property
    def may_be_restarted(self) -> bool:
        """True if there is a session that could be restarted now."""
        return self.active and self.session > 0

    @property
    def pausing(self) -> bool:
        """True while the gang requests no containers, so that other jobs can get all of theirs."""
        return _GANG_PAUSE in self.timers

    @property
    def may_restart(self) -> bool:
        """True if ended tasks keep their containers. A restart for a taken port requests them again instead."""
        spec = self.spec
        return bool(spec.max_restarts) and (spec.restart_window is not None or len(self.restarts) < spec.max_restarts)
