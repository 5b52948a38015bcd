"""The words for where a job, a task and a role stand."""

from __future__ import annotations

from enum import Enum


class JobState(Enum):
    """Where a job stands, as every surface shows it."""

    SUBMITTED = "submitted"  #: the client: the id exists, nothing runs yet
    QUEUED = "queued"  #: the scheduler has no room yet
    STARTING = "starting"  #: containers come up, programs do not run yet
    RUNNING = "running"  #: the gang's programs were started
    RESTARTING = "restarting"  #: a session failed, the next one is prepared
    STOPPING = "stopping"  #: the result is known, what is left is being stopped
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"

    @property
    def ended(self) -> bool:
        """True for the three last states, which never change again."""
        return self in ENDED_JOB_STATES


ENDED_JOB_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED})


class TaskState(Enum):
    """Where a task stands, as every surface shows it."""

    # The machine counts tasks by state with every event: an enum's own hash, of the name, costs five times as much.
    __hash__ = object.__hash__

    PENDING = "pending"  #: its role may not start yet
    REQUESTED = "requested"  #: a container was asked for
    STARTING = "starting"  #: the container is there, its executor has not registered for this session
    REGISTERED = "registered"  #: waits for the rest of the gang
    RUNNING = "running"  #: the program was told to start
    STOPPING = "stopping"  #: the program was told to stop
    SUCCEEDED = "succeeded"  #: exit code 0
    FAILED = "failed"
    STOPPED = "stopped"  #: ended by us
    LOST = "lost"  #: its container went away or fell silent


#: The program may live.
LIVING_TASK_STATES = frozenset({TaskState.RUNNING, TaskState.STOPPING})
ENDED_TASK_STATES = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST})


class RoleKind(Enum):
    """How a role counts in the job's result."""

    TRACKED = "tracked"  #: waited for
    UNTRACKED = "untracked"  #: not waited for, but its failure fails the session
    SIDECAR = "sidecar"  #: neither waited for nor counted
    SETUP = "setup"  #: every other role waits for its success; no part of the computation


class Meeting(Enum):
    """What our executor itself runs on the port of a task, beside its program."""

    STORE = "store"  #: a key-value store over HTTP, as Horovod's processes speak to find each other
    RELAY = "relay"  #: passes connections on to the port that the task's program names in a file


class DistributedMode(Enum):
    """When the programs of a session start."""

    GANG = "gang"  #: when every task of the gang has registered
    FCFS = "fcfs"  #: each as soon as it has registered; without a cluster spec


class FailurePolicy(Enum):
    """Which task failures fail a session. Untracked and `stop_on_failure` roles fail it under every policy."""

    ANY_TRACKED = "any-tracked"  #: any tracked task
    CHIEF_OR_ALL = "chief-or-all"  #: the chief, or every tracked task (the original's rule)
    ANY_TASK = "any-task"  #: any task of any kind, sidecars included


class StopOn(Enum):
    """What ends a job successfully."""

    ALL = "all"  #: every tracked task succeeded
    CHIEF = "chief"  #: the chief succeeded


class AfterCondition(Enum):
    """What a role waits for in another role."""

    SUCCEEDED = "succeeded"  #: every task of it succeeded
    ENDED = "ended"  #: every task of it ended, however
    STARTED = "started"  #: every task's program was started


class RestartScope(Enum):
    """What starts again when a task has failed."""

    SESSION = "session"  #: the whole gang, as the next session
    TASK = "task"  #: only that task, as its next try


class ReservedPort(Enum):
    """What becomes of a task's reserved ports when its program starts."""

    RESERVED = "reserved"  #: the executor holds them until the task ends; servers with SO_REUSEADDR can bind them
    FREE = "free"  #: the executor closes its sockets, so that any server can bind them


class OnTimeout(Enum):
    """What a group time-out does."""

    FAIL = "fail"
    IGNORE = "ignore"  #: the role becomes untracked


class TlsMode(Enum):
    """Where the job's connections use TLS."""

    AUTO = "auto"  #: wherever a message can leave the machine
    ALWAYS = "always"  #: between processes of one machine too
