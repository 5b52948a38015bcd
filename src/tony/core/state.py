"""What the machine remembers. Mutable, and changed by the steps alone; everybody else reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from tony.core.timers import Timers
from tony.core.transitions import JobMove, TaskMove, next_job_state, next_task_state
from tony.core.waiting_set import IndexHeap
from tony.dataclass import dataclass, field
from tony.model.cluster_spec import ClusterSpec
from tony.model.exit_status import ExitStatus
from tony.model.ids import TaskId
from tony.model.job_report import Failure
from tony.model.job_spec import JobSpec, Role
from tony.model.states import LIVING_TASK_STATES, AfterCondition, JobState, RoleKind, TaskState

#: States of a job in which programs may be started.
_ACTIVE = (JobState.RUNNING, JobState.STARTING, JobState.QUEUED)


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart that was charged.

    Attributes:
        role: whose task had failed; empty if it was no single one.
        alone: the task, if only that started again; else empty.
    """

    at: float
    role: str
    alone: str = ""


@dataclass(slots=True)
class Task:
    """One task.

    Attributes:
        name: the id as text.
        since: when its state changed last.
        session, try_, version: of its last `Start`; 0 before the first.
        gone_at: when its container ended while the program was living, until its report comes or is given up.
        gone_why: what was said of that container's end.
        forced: the same, if cluster or node ended it; else empty.
        listens: where a later application master can call its executor; empty if that comes by itself.
        over_memory: they did so because it took more memory than it may have.
        blameless: its container went through no fault of the job.
        outside: how its program ended, if somebody else had that stopped and the scheduler has not yet said who.
        outside_at: when it did.
        began: when it was told to start last.
        again: from when on it may start again in this session, alone; None if that is not decided.
        early: its last try ended before `min_uptime`; free: tries of it in a row that are not charged.
        started: its program was seen to run in this session.
        judged: a failure of this try was judged already; its end is no second one.
        launches: containers that went away in this session before the program was started.
    """

    id: TaskId
    name: str
    state: TaskState = TaskState.PENDING
    since: float = 0.0
    container: str | None = None
    incarnation: str | None = None
    executor_pid: int | None = None
    listens: str = ""
    host: str | None = None
    address: str | None = None
    tb_port: int | None = None
    session: int = 0
    try_: int = 0
    version: int = 0
    pid: int | None = None
    gone_at: float | None = None
    gone_why: str = ""
    forced: str = ""
    over_memory: bool = False
    blameless: bool = False
    outside: ExitStatus | None = None
    outside_at: float = 0.0
    began: float = 0.0
    again: float | None = None
    early: bool = False
    free: int = 0
    started: bool = False
    judged: bool = False
    launches: int = 0
    status: ExitStatus | None = None
    ended_at: float | None = None
    note: str = ""

    @property
    def living(self) -> bool:
        """A `Start` was sent and nothing has proved yet that its program is over."""
        return self.state in LIVING_TASK_STATES


class ContainerIntent(Enum):
    """Whether we still want a container."""

    HELD = "held"
    RELEASED = "released"  #: Release was asked for
    KILLED = "killed"  #: Kill was asked for, perhaps after Release


@dataclass(slots=True)
class Container:
    """One container that was granted and has not ended.

    Attributes:
        task: whose executor was launched in it; None if nobody's, or if that task does not need it any more.
        presumed: nobody has seen its end, and nobody will; see `steps/presumed.py`.
        since: when it was granted.
    """

    id: str
    role: str
    host: str
    task: TaskId | None = None
    hold: ContainerIntent = ContainerIntent.HELD
    presumed: bool = False
    since: float = 0.0

    @property
    def given_back(self) -> bool:
        """Nothing more is done in it; its end is still to come."""
        return self.hold is not ContainerIntent.HELD


@dataclass(slots=True)
class RoleState:
    """One role, with the counters that policies read.

    Attributes:
        kind: as in the job, or `untracked` after an ignored group time-out.
        ready: its `after` is satisfied in this session.
        version: the spec version under which its programs were started in this session; 0 before.
        finished: it succeeded in an earlier session and is not run again.
        blocked: it can never become ready in this session; that was said.
        started: tasks whose program has been started in this session.
        unstarted: tasks that are over in this session without that.
        early: in the last session, one of its programs ended before `min_uptime`.
        held: containers that tasks of this role have and that were not given back.
        demand: containers that the scheduler was last told to have for it.
        waiting: indexes of the tasks for which a container is sought: those that are `requested`, and between two
            sessions those that will be.
        arrived: indexes of the tasks that are `registered` now: nobody looks for them among thousands.
        left_out: indexes of the tasks that do not take part in this session.
        used: seconds for which containers were held that have ended, added up over all of them.
    """

    name: str
    spec: Role
    kind: RoleKind
    tasks: list[Task]
    counts: dict[TaskState, int]
    ready: bool = False
    version: int = 0
    finished: bool = False
    blocked: bool = False
    started: int = 0
    unstarted: int = 0
    early: bool = False
    held: int = 0
    demand: int = 0
    waiting: IndexHeap = field(default_factory=IndexHeap)
    arrived: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    used: float = 0.0

    @property
    def total(self) -> int:
        """Number of tasks that take part."""
        return len(self.tasks) - len(self.left_out)

    @property
    def members(self) -> list[Task]:
        """The tasks that take part."""
        return [task for task in self.tasks if task.id.index not in self.left_out] if self.left_out else self.tasks

    @property
    def ended(self) -> int:
        """Tasks that are over in this session, however."""
        counts = self.counts
        return (
            counts[TaskState.SUCCEEDED] + counts[TaskState.FAILED] + counts[TaskState.STOPPED] + counts[TaskState.LOST]
        )

    @property
    def succeeded(self) -> int:
        """Tasks that succeeded."""
        return self.counts[TaskState.SUCCEEDED]

    @property
    def registered(self) -> int:
        """Tasks that are registered in this session, or past that."""
        counts = self.counts
        before = counts[TaskState.PENDING] + counts[TaskState.REQUESTED] + counts[TaskState.STARTING]
        return len(self.tasks) - before

    def satisfies(self, condition: AfterCondition) -> bool:
        """Whether a role that waits for this one may start."""
        if self.finished:
            return True
        if condition is AfterCondition.SUCCEEDED:
            return self.succeeded == self.total
        if condition is AfterCondition.ENDED:
            return self.ended == self.total
        return self.started == self.total


@dataclass(slots=True)
class Final:
    """The job's result, decided once; `verdict` says why nothing was started again."""

    state: JobState
    failure: Failure | None
    verdict: str = ""


class State:
    """Everything about one job.

    Attributes:
        chief: the task whose word counts most in this session, if there is one.
        attempt: the newest life of the application master; session: the present try of the gang, 0 before the first.
        opening: the highest session that was asked to be opened.
        version: of the cluster spec, within the session; specs: version -> what was published under it.
        reconciling: what outlived the attempt before is being found out: nothing is judged lost.
        found: containers that have shown themselves meanwhile.
        inherited: the session that the attempt before had asked to be opened.
        latest: when the last event came.
        accepted_wall: seconds since 1970 when the job was accepted, a label.
        settings: digest of the resolved job.
        gangs: the scheduler grants all of a gang's containers together or none of them.
        given_back: how often in a row the gang has given back what it had of an incomplete whole.
        queue_reason: why there is no room, in the scheduler's words; empty when there is.
        containers: id -> those that were granted and have not ended; gone: ids of those that have.
        living: programs that may live.
        restarts: those that are charged against `max_restarts`, as long as they count.
        restarts_charged, restarts_for_ports, restarts_free: how many there were, charged, for taken ports, and for what
            else is nobody's fault of the job's.
        free: restarts of the gang in a row that were not charged.
        began: when the first program of this session was told to start, preparation apart; None before.
        chooses: the scheduler can keep containers off a host.
        hosts: host -> when tasks failed on it, lately; excluded: those that shall get no further container for a while.
        avoided: those on which the scheduler gives us none, as it said: no session begins there.
        session_reason: why the present session opened, if it is not the first.
        restart_reason: why the next session opens; restart_due: its back-off is over.
        failures: those that count in this session, in the order in which they were heard of.
        unexplained: tasks that were stopped by somebody else, or whose container is gone, until it is known why.
        tolerated: those of tracked tasks in this session that do not count as long as others may succeed.
        exports: role -> variable -> what its programs have handed on, behind the index of the task that it is from.
        final: the result, from when it is decided; ended_at: when the job ended.
        refused: events that were about something that is not, or not any more.
        moved: told of each task whose state has changed, for those who look on.
    """

    def __init__(self, job_id: str, spec: JobSpec) -> None:
        self.job_id = job_id
        self.spec = spec
        self.chief = spec.chief
        self.job = JobState.SUBMITTED
        self.attempt = 0
        self.session = 0
        self.opening = 0
        self.version = 0
        self.specs: dict[int, ClusterSpec] = {}
        self.reconciling = False
        self.found: set[str] = set()
        self.inherited = 0
        self.latest = 0.0
        self.accepted_wall = 0.0
        self.am_pid = 0
        self.am_host = ""
        self.settings = ""
        self.gangs = True
        self.given_back = 0
        self.queue_reason = ""
        self.roles: dict[str, RoleState] = {}
        self.tasks: dict[TaskId, Task] = {}
        self.containers: dict[str, Container] = {}
        self.gone: set[str] = set()
        self.timers = Timers()
        self.living = 0
        self.restarts: list[Restart] = []
        self.restarts_charged = 0
        self.restarts_for_ports = 0
        self.restarts_free = 0
        self.free = 0
        self.began: float | None = None
        self.chooses = False
        self.hosts: dict[str, list[float]] = {}
        self.excluded: set[str] = set()
        self.avoided: set[str] = set()
        self.session_reason = ""
        self.restart_reason = ""
        self.restart_due = False
        self.failures: list[Failure] = []
        self.unexplained: set[TaskId] = set()
        self.tolerated: list[Failure] = []
        self.exports: dict[str, dict[str, tuple[int, str]]] = {}
        self.final: Final | None = None
        self.ended_at: float | None = None
        self.refused = 0
        self.moved: Callable[[Task], None] | None = None
        for name, role in spec.effective_roles.items():
            tasks = [Task(TaskId(name, index), f"{name}:{index}") for index in range(role.instances)]
            counts = dict.fromkeys(TaskState, 0)
            counts[TaskState.PENDING] = len(tasks)
            self.roles[name] = RoleState(name, role, role.kind, tasks, counts)
            self.tasks.update({task.id: task for task in tasks})

    def move_task(self, task: Task, move: TaskMove, now: float) -> None:
        """Takes one arrow of the task table and keeps the role's counters."""
        before = task.state
        target = next_task_state(before, move, task.name)
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
        if self.moved:
            self.moved(task)

    def move_job(self, move: JobMove) -> None:
        """Takes one arrow of the job table."""
        self.job = next_job_state(self.job, move)

    def first_chief(self) -> TaskId | None:
        """The job's chief; of a role of which some are left out, the first that takes part."""
        chief = self.spec.chief
        return self.roles[chief.role].members[0].id if chief else None

    @property
    def active(self) -> bool:
        """True as long as programs may be started: not restarting, stopping or ended."""
        return self.job in _ACTIVE

    def variables_of(self, role: str) -> Mapping[str, str]:
        """What a program of a role finds in its environment of that which other roles have handed on."""
        others = [own for other, own in self.exports.items() if other != role]
        return {name: text for own in others for name, (_, text) in own.items()}

    @property
    def may_be_restarted(self) -> bool:
        """Whether there is a session that could be given up for the next one now."""
        return self.active and self.session > 0

    @property
    def pausing(self) -> bool:
        """The gang asks for no container now, so that others may get all of theirs."""
        return "gang-pause" in self.timers

    @property
    def may_restart(self) -> bool:
        """Whether finished tasks keep their containers. A restart for a taken port asks for them again instead."""
        spec = self.spec
        return bool(spec.max_restarts) and (spec.restart_window is not None or len(self.restarts) < spec.max_restarts)
