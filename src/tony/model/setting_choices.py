"""Choices among a few words, made by the settings of a job or by its framework."""

from __future__ import annotations

from enum import Enum


class RoleKind(Enum):
    """Effect of a role on the job's outcome."""

    TRACKED = "tracked"  #: waited for
    UNTRACKED = "untracked"  #: not waited for, but its failure fails the session
    SIDECAR = "sidecar"  #: neither waited for nor counted
    SETUP = "setup"  #: every other role waits for its success; not part of the computation


class RendezvousKind(Enum):
    """The rendezvous that the executor runs on the port of a task, next to its program."""

    STORE = "store"  #: a key-value store over HTTP for Horovod's processes
    RELAY = "relay"  #: forwards connections to the port that the task's program announces in a file


class RuleMeaning(Enum):
    """What a line that a rule of a job or site matches says about the program that printed it."""

    CAUSE = "cause"  #: what went wrong in this program
    CONSEQUENCE = "consequence"  #: another task went away, or did not answer


class DistributedMode(Enum):
    """Start rule for the programs of a session."""

    GANG = "gang"  #: when every task of the gang has registered
    FCFS = "fcfs"  #: each as soon as it has registered; without a cluster spec


class FailurePolicy(Enum):
    """Which task failures fail a session. Untracked and `stop_on_failure` roles fail it under every policy."""

    ANY_TRACKED = "any-tracked"  #: any tracked task
    CHIEF_OR_ALL = "chief-or-all"  #: the chief, or every tracked task (LinkedIn TonY's rule)
    ANY_TASK = "any-task"  #: any task of any kind, sidecars included


class StopOn(Enum):
    """Success rule of a job."""

    ALL = "all"  #: every tracked task succeeded
    CHIEF = "chief"  #: the chief succeeded


class AfterCondition(Enum):
    """Condition on another role that a role waits for."""

    SUCCEEDED = "succeeded"  #: every task of it succeeded
    ENDED = "ended"  #: every task of it ended, successfully or not
    STARTED = "started"  #: every task's program was started


class RestartScope(Enum):
    """Scope of the restart after a task has failed."""

    SESSION = "session"  #: the whole gang, as the next session
    TASK = "task"  #: only that task, as its next task attempt


class ReservedPort(Enum):
    """Handling of a task's reserved ports when its program starts."""

    RESERVED = "reserved"  #: the executor holds them until the task ends; servers with SO_REUSEADDR can bind them
    FREE = "free"  #: the executor closes its sockets, so that any server can bind them


class OnTimeout(Enum):
    """The effect of a group timeout."""

    FAIL = "fail"
    IGNORE = "ignore"  #: the role becomes untracked


class OnInterrupt(Enum):
    """The effect of the first Ctrl-C on a job that is followed."""

    ASK = "ask"  #: a question on a terminal; elsewhere the job stops
    STOP = "stop"
    DETACH = "detach"  #: the follower exits, the job continues


class OnStall(Enum):
    """What the AM does when the programs of a session stop making progress."""

    REPORT = "report"  #: it is an event of the job, and shown
    RESTART = "restart"  #: as for a failure of the session
    FAIL = "fail"  #: the job fails


class TlsMode(Enum):
    """Connections of the job that use TLS."""

    AUTO = "auto"  #: wherever a message can leave the machine
    ALWAYS = "always"  #: between processes of one machine too
