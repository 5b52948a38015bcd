"""The job as defined by its author, with every default filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tony.model.executor_settings import JobProgramSettings, RoleProgramSettings
from tony.model.ids import TaskId
from tony.model.placeholders import find_addressed_roles
from tony.model.setting_choices import (
    AfterCondition,
    DistributedMode,
    FailurePolicy,
    OnInterrupt,
    OnStall,
    OnTimeout,
    RestartScope,
    RoleKind,
    StopOn,
    TlsMode,
)
from tony.model.value_class import value_class

GIB = 1024**3
MIB = 1024**2

DEFAULT_SCHEDULER = "local"
#: Roles of these names are next to a computation, under every framework: they read what the others write.
BYSTANDERS = frozenset({"evaluator", "tensorboard"})
#: A value of a scheduler's own setting; a mapping is a table of JSON values.
SettingValue = str | int | float | bool | tuple[str, ...] | Mapping[str, Any]
#: A string runs through `bash -c`; a tuple is executed unchanged.
Command = str | tuple[str, ...]


@value_class
class Resources:
    """The resources of one task.

    Attributes:
        memory: bytes, a hard limit.
        vcores: shares of CPU; may be oversubscribed on `local`.
        gpus: whole devices, never shared.
        others: other resources of a cluster, by the cluster's name: `yarn.io/fpga`.
    """

    memory: int = GIB
    vcores: int = 1
    gpus: int = 0
    others: Mapping[str, int] = field(default_factory=dict)


@value_class
class MemoryGrowth:
    """How far the memory of a role is raised when one of its tasks was killed for memory.

    Attributes:
        factor: the memory of the next attempt divided by that of the last one.
        up_to: bytes that are never exceeded; None: the memory is not raised.
    """

    factor: float = 1.5
    up_to: int | None = None


@value_class
class TimeoutAfter:
    """Once every task of `group` is done, the role may run `limit` seconds longer."""

    group: str
    limit: float
    on_timeout: OnTimeout = OnTimeout.FAIL


@value_class
class Role(RoleProgramSettings):
    """A group of like tasks. A field that is None takes the job's value.

    Attributes:
        instances: number of tasks; the maximum for an elastic role.
        min_instances: minimum with which a session may start; None: it waits for all.
        after: role -> condition that must hold before this role starts.
        restart: what is restarted when one of its tasks fails.
        max_restarts: restarts that its tasks may cause, within the job's; None: only the job's limit.
        restart_grace: overrides the job's.
        no_retry_on: replaces the job's.
        memory_on_oom: replaces the job's.
        procs_per_task: user processes that one executor starts (ranks of PyTorch, for instance).
        node_label: only nodes with this label.
        image: container image that the tasks run in.
        spread: no two tasks of the role on one host.
        scheduler_settings: scheduler -> its own settings for the role.
    """

    instances: int = 1
    min_instances: int | None = None
    command: Command | None = None
    kind: RoleKind = RoleKind.TRACKED
    resources: Resources = field(default_factory=Resources)
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    python: str | None = None
    after: Mapping[str, AfterCondition] = field(default_factory=dict)
    stop_on_failure: bool = False
    timeout_after: TimeoutAfter | None = None
    restart: RestartScope = RestartScope.SESSION
    max_restarts: int | None = None
    no_retry_on: tuple[int, ...] | None = None
    memory_on_oom: MemoryGrowth | None = None
    restart_grace: float | None = None
    stop_grace: float | None = None
    port_range: tuple[int, int] | None = None
    procs_per_task: int = 1
    node_label: str | None = None
    image: str | None = None
    spread: bool = False
    scheduler_settings: Mapping[str, Mapping[str, SettingValue]] = field(default_factory=dict)

    @property
    def task_count_text(self) -> str:
        """Return its number of tasks for messages: `8`, or `2 to 8`."""
        return str(self.instances) if self.min_instances is None else f"{self.min_instances} to {self.instances}"


@value_class
class Timeouts:
    """Seconds; None is off. `config/table/settings_table.py` says which part of tony enforces each."""

    queue: float | None = None
    allocation: float | None = None
    registration: float | None = 900.0
    startup: float | None = None
    execution: float | None = None
    job: float | None = None


@value_class
class Notify:
    """Webhook notifications about the job.

    Attributes:
        webhook: URL that receives a POST for each notification; may be a secret. None: none are sent.
        secret: signing key of the notifications; None: they are not signed.
        on: which to send, of `NOTICES`.
    """

    webhook: str | None = None
    secret: str | None = None
    on: tuple[str, ...] = ("failed", "restarted", "succeeded")


#: Subjects of notifications, in the order of a job's life.
NOTICES = ("started", "restarted", "stalled", "straggler", "succeeded", "failed", "killed")


@value_class
class JobSpec(JobProgramSettings):
    """One job. Paths are absolute by the time it is submitted.

    Attributes:
        roles: role name -> Role, in the author's order. Empty means one task, `main:0`, that runs `command`.
        tags: words by which users find it again.
        viewers: who may view it besides its owner: users, `@groups`, `*` for all users.
        editors: who may also stop and change it.
        gitignore: files that a `.gitignore` in `source` matches are left out, unless git tracks them.
        env: variables of every task's program.
        files: `path`, `path::name`, `path#archive`, `path#optional`; a path of this machine, or `hdfs://...`.
        groups: group name -> role names.
        max_restarts: maximum restarts after program failures, of the gang or of single tasks.
        restart_window: seconds after which a restart no longer counts; None: they all count.
        no_retry_on: exit codes after which nothing is restarted.
        memory_on_oom: how far the memory of a role is raised when one of its tasks was killed for memory.
        min_uptime: seconds; a program that failed before its gang had run this long, twice, is not restarted; None:
            off.
        restart_grace: seconds between SIGTERM and SIGKILL of programs that are stopped for a restart; None:
            `stop_grace`.
        backoff: seconds before the second restart; doubles up to a minute; the first restart is immediate.
        gang_patience: gang backoff: seconds without another grant after which an incomplete gang releases its
            containers for a while, where the scheduler does not grant gangs; None: never.
        gang_wait: seconds that the first session waits for all tasks of elastic roles; 0: only for the minimum, None:
            without limit.
        shrink_after: the same for later sessions.
        stop_grace: seconds between SIGTERM and SIGKILL.
        am_attempts: AM attempts within ten minutes; schedulers may allow fewer.
        orphan_grace: lease: seconds that a program survives without its application master; None: the scheduler's
            default.
        port_range: first and last port that may be reserved, both included; None lets the kernel choose.
        metrics_interval: seconds between two metric samples; longer in large jobs; 0: none are taken.
        on_interrupt: the effect of Ctrl-C where the job is followed.
        stall_timeout: seconds without any sign of progress after which programs may count as stalled, see
            `am/stall_detection.py`; None: they never do.
        on_stall: what happens then.
        scheduler: the scheduler's name; its own settings are in `scheduler_settings`.
    """

    name: str = "job"
    tags: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    framework: str = "none"
    command: Command | None = None
    source: str | None = None
    gitignore: bool = True
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_restarts: int = 0
    backoff: float = 1.0
    restart_window: float | None = None
    no_retry_on: tuple[int, ...] = ()
    memory_on_oom: MemoryGrowth = field(default_factory=MemoryGrowth)
    min_uptime: float | None = None
    restart_grace: float | None = None
    gang_patience: float | None = 60.0
    gang_wait: float | None = 60.0
    shrink_after: float | None = 30.0
    stop_on: StopOn = StopOn.ALL
    failure_policy: FailurePolicy = FailurePolicy.ANY_TRACKED
    stop_grace: float = 15.0
    orphan_grace: float | None = None
    am_attempts: int = 5
    port_range: tuple[int, int] | None = None
    heartbeat_interval: float = 1.0
    heartbeat_timeout: float = 25.0
    timeouts: Timeouts = field(default_factory=Timeouts)
    metrics_interval: float = 5.0
    stall_timeout: float | None = 300.0
    on_stall: OnStall = OnStall.REPORT
    tls: TlsMode = TlsMode.AUTO
    notify: Notify = field(default_factory=Notify)
    on_interrupt: OnInterrupt = OnInterrupt.ASK
    scheduler: str = DEFAULT_SCHEDULER
    scheduler_settings: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def effective_roles(self) -> Mapping[str, Role]:
        """The roles, or the one role `main` of a job without any; every other one waits for all setup roles."""
        roles = self.roles or {"main": Role(command=self.command)}
        first = dict.fromkeys(self.setup_roles, AfterCondition.SUCCEEDED)
        if not first:
            return roles
        return {
            name: role if name in first else replace(role, after={**role.after, **first})
            for name, role in roles.items()
        }

    @property
    def tells_peers(self) -> bool:
        """Return True if programs get the addresses of their peers, which needs a framework and gang mode."""
        return self.framework not in ("none", "standalone") and self.distributed_mode is DistributedMode.GANG

    @property
    def addressed_roles(self) -> frozenset[str]:
        """Return the roles whose address a placeholder `{address.ROLE}` in a command or variable needs."""
        return find_addressed_roles(text for role in self.effective_roles for text in self.texts_of(role))

    def texts_of(self, role: str) -> tuple[str, ...]:
        """Return the texts of a role in which placeholders are filled in: command and variables."""
        command = self.command_of(role) or ""
        return (*((command,) if isinstance(command, str) else command), *self.env_of(role).values())

    @property
    def queue(self) -> str:
        """Return the scheduler's queue; empty if the job names none."""
        return str(self.scheduler_settings.get("queue", ""))

    @property
    def all_tags(self) -> tuple[str, ...]:
        """Return its own tags and those passed to the scheduler."""
        role_tags = str(self.scheduler_settings.get("tags", "")).split(",")
        return tuple(dict.fromkeys((*self.tags, *(tag.strip() for tag in role_tags if tag.strip()))))

    @property
    def setup_roles(self) -> tuple[str, ...]:
        """Return the names of the roles that run before all others, in the author's order."""
        return tuple(name for name, role in self.roles.items() if role.kind is RoleKind.SETUP)

    @property
    def chief(self) -> TaskId | None:
        """Return the chief: `chief:0`, else `worker:0`, else `main:0` where it is the only task.

        `main:0` is the task of a job without roles, or with `[roles.main]` alone.
        """
        if not self.roles or (list(self.roles) == ["main"] and self.roles["main"].instances == 1):
            return TaskId("main", 0)
        return self._find_first("chief") or self._find_first("worker")

    @property
    def tensorboard_task(self) -> TaskId | None:
        """Return the task that gets TB_PORT: `tensorboard:0` if it exists, else the chief, else the only task."""
        first = self._find_first("tensorboard") or self.chief
        names = [name for name, role in self.effective_roles.items() if role.kind is not RoleKind.SETUP]
        if first is None and len(names) == 1 and self.effective_roles[names[0]].instances == 1:
            return TaskId(names[0], 0)
        return first

    def _find_first(self, name: str) -> TaskId | None:
        """Return the first task of a role that takes part in the computation; None if there is no such role."""
        role = self.roles.get(name)
        return TaskId(name, 0) if role and role.instances and role.kind is not RoleKind.SETUP else None

    @property
    def task_ids(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(name, i) for name, role in self.effective_roles.items() for i in range(role.instances))

    @property
    def elastic_roles(self) -> tuple[str, ...]:
        """Return the names of the roles that may have fewer tasks than `instances`."""
        return tuple(name for name, role in self.roles.items() if role.min_instances is not None)

    def leave_out(self, absent: Mapping[str, Collection[int]]) -> JobSpec:
        """Return the job as programs of a session see it that has left out some tasks of some roles."""
        if not absent:
            return self
        roles = {
            name: replace(role, instances=role.instances - len(absent.get(name, ())))
            for name, role in self.roles.items()
        }
        return replace(self, roles=roles)

    @property
    def tracked_count(self) -> int:
        """Return the number of tracked tasks: TASK_NUM and `{num_tasks}`."""
        return sum(role.instances for role in self.effective_roles.values() if role.kind is RoleKind.TRACKED)

    def command_of(self, role: str) -> Command | None:
        """Return the role's own command, else the job's."""
        own = self.effective_roles[role].command
        return self.command if own is None else own

    def env_of(self, role: str) -> dict[str, str]:
        """Return the job's variables, overridden by the role's."""
        return {**self.env, **self.effective_roles[role].env}

    def python_of(self, role: str) -> str | None:
        """Return the role's interpreter or archive, else the job's."""
        return self.effective_roles[role].python or self.python

    def stop_grace_of(self, role: str) -> float:
        """Return the seconds between SIGTERM and SIGKILL for one role."""
        own = self.effective_roles[role].stop_grace
        return self.stop_grace if own is None else own

    def restart_grace_of(self, role: str) -> float:
        """Return the seconds between SIGTERM and SIGKILL for one role that is stopped for a restart."""
        own = self.effective_roles[role].restart_grace
        own = self.restart_grace if own is None else own
        return self.stop_grace_of(role) if own is None else own

    def find_no_retry_on(self, role: str) -> tuple[int, ...]:
        """Return the exit codes of one role's programs after which nothing is restarted."""
        own = self.effective_roles[role].no_retry_on
        return self.no_retry_on if own is None else own

    def memory_growth_of(self, role: str) -> MemoryGrowth:
        """Return how far the memory of one role is raised when one of its tasks was killed for memory."""
        return self.effective_roles[role].memory_on_oom or self.memory_on_oom

    def port_range_of(self, role: str) -> tuple[int, int] | None:
        """Return the port range of one role."""
        return self.effective_roles[role].port_range or self.port_range


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The addresses of one session's gang.

    Attributes:
        version: incremented within a session when one task is restarted; starts at 1.
        roles: role -> tuple of "host:port" of the tasks that take part, in order; from registrations; roles in the
            job's order. Where none is left out, a task's position is its index.
        absent: role -> indexes of its tasks that this session has left out; only of roles that may have fewer.
    """

    session: int
    version: int
    roles: Mapping[str, tuple[str, ...]]
    absent: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def find_placed(place: int, absent: Collection[int]) -> int:
    """Return the index of the task at a position among those that take part: the inverse of `place_among`."""
    return next(index for index in count(place) if index not in absent and place_among(index, absent) == place)


def place_among(index: int, absent: Collection[int]) -> int:
    """Return a task's position among those of its role that take part: the index that its program sees."""
    return index - sum(other < index for other in absent)
