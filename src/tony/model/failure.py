"""A failure of a job: who is responsible, its cause, its root task, and the facts of which its sentence is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from tony.errors import ExitCode
from tony.model.actor import Actor
from tony.model.diagnosis import Diagnosis, FailureKind
from tony.model.ids import TaskId


class FailureClass(Enum):
    """The responsible party of a failure; decides the exit code."""

    USER = "user"  #: the user program or a limit set for it: exit 1
    INFRASTRUCTURE = "infrastructure"  #: cluster, network, machine: exit 3
    KILLED = "killed"  #: a user killed the job: exit 4
    PLATFORM = "platform"  #: a bug of tony: exit 70


EXIT_CODES: Mapping[FailureClass, ExitCode] = {
    FailureClass.USER: ExitCode.PROGRAM_FAILED,
    FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    FailureClass.KILLED: ExitCode.KILLED,
    FailureClass.PLATFORM: ExitCode.BUG,
}


#: Kinds of failures whose reason is outside the program.
_PASSING_KINDS = frozenset(
    {
        FailureKind.NETWORK,
        FailureKind.RENDEZVOUS,
        FailureKind.STORAGE,
        FailureKind.NODE,
        FailureKind.PREEMPTION,
        FailureKind.KILLED,
    }
)


class FailureCause(StrEnum):
    """What failed; the words of `cause` in reports."""

    PROGRAM = "program"
    MEMORY = "memory"
    LAUNCH = "launch"
    LIMIT = "limit"
    LOST = "lost"
    SILENT = "silent"
    PORT_COLLISION = "port-collision"
    QUEUE_TIMEOUT = "queue-timeout"
    ALLOCATION_TIMEOUT = "allocation-timeout"
    REGISTRATION_TIMEOUT = "registration-timeout"
    STARTUP_TIMEOUT = "startup-timeout"
    EXECUTION_TIMEOUT = "execution-timeout"
    JOB_TIMEOUT = "job-timeout"
    GROUP_TIMEOUT = "group-timeout"
    HANG = "hang"
    LIFETIME = "lifetime"
    KILLED = "killed"
    REFUSED = "refused"
    UNSATISFIABLE = "unsatisfiable"
    STORAGE = "storage"
    AM_LOST = "am-lost"
    SCHEDULER_LOST = "scheduler-lost"
    BUG = "bug"


#: Limits of what only the user knows how long it takes; cause -> setting.
RUN_TIME_LIMITS: Mapping[FailureCause, str] = {
    FailureCause.EXECUTION_TIMEOUT: "execution_timeout",
    FailureCause.JOB_TIMEOUT: "job_timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitFacts:
    """A program exited.

    Attributes:
        exit_message: what the executor reported; empty if exit code or signal suffice.
    """

    exit_message: str


class ClusterKill(StrEnum):
    """Why the cluster or the node killed a container."""

    MEMORY_LIMIT = "memory-limit"
    PREEMPTED = "preempted"  #: its resources were needed for other work
    OTHER = "other"


class ContainerLoss(Enum):
    """How a container's end made a task fail."""

    STOPPED = "stopped"  #: its program was stopped, not by the AM
    OUT_OF_MEMORY = "out-of-memory"  #: it exceeded its memory limit
    LOST = "lost"  #: it ended with its program
    NOT_STARTED = "not-started"  #: as several before, it ended before the program was started
    NOT_RESTARTED = "not-restarted"  #: it ended before the program could restart in it


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """A container ended.

    Attributes:
        container: what that meant for the program.
        end: why it ended, in the scheduler's words; empty until that is known.
        launches: containers that ended before the program was started.
        kill: why the cluster killed it; None if it did not, or that is not known.
    """

    container: ContainerLoss
    end: str
    launches: int = 0
    kill: ClusterKill | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceFacts:
    """No heartbeat arrived for `silence` seconds."""

    silence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeoutFacts:
    """A role exceeded its `timeout_after`.

    Attributes:
        was_running: the task's program was running; else it had not started.
    """

    group: str
    limit: float
    was_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFacts:
    """Containers are missing after `allocation_timeout`.

    Attributes:
        pending: which ones.
        releases: how often the gang released those that it had.
        queue: why there is no room, in the scheduler's words.
    """

    pending: str
    releases: int
    queue: str
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutFacts:
    """A task or the job exceeded a limit in seconds; the cause says which."""

    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The scheduler, a policy or the system reported an error."""

    message: str


#: Each has a required field that no class before it has: so they are told apart in JSON.
FailureFacts = (
    ExitFacts | ContainerFacts | SilenceFacts | GroupTimeoutFacts | AllocationFacts | TimeoutFacts | MessageFacts
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Failure of a job (or a session): the root cause, then the others.

    Attributes:
        reason: one sentence for users.
        at: seconds since the job was accepted.
        tail: the last lines of the task's stderr, oldest first.
        log: path of that task's stderr file, relative to the job directory.
        others: one line for each further failure.
        blameless: the job is not at fault: the restart does not count against max_restarts.
        actor: who killed the job; None if it was not killed.
        facts: what `reason` is made of; None where it was given as text.
        no_restart_reason: why nothing was restarted; empty if no restart was considered.
        diagnosis: its kind, the lines of output that prove it, and what to do; None in records of older versions.
        consequences: tasks that failed because of it.
        step: the last one that the program reported; None if it reported none.
    """

    failure_class: FailureClass
    cause: FailureCause
    reason: str
    session: int
    at: float
    task: TaskId | None = None
    host: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    tail: tuple[str, ...] = ()
    log: str | None = None
    others: tuple[str, ...] = ()
    blameless: bool = False
    no_restart_reason: str = ""
    actor: Actor | None = None
    facts: FailureFacts | None = None
    diagnosis: Diagnosis | None = None
    consequences: tuple[TaskId, ...] = ()
    step: float | None = None

    @property
    def error_line(self) -> str:
        """Return the line of output that proves the failure; empty if there is none."""
        evidence = self.diagnosis.evidence if self.diagnosis else ()
        return evidence[0].text if evidence else ""

    @property
    def error_at(self) -> float:
        """Return when the program printed its decisive line, or ended; seconds since the job was accepted."""
        evidence = self.diagnosis.evidence if self.diagnosis else ()
        return self.at - (evidence[0].ago if evidence else 0.0)

    @property
    def fingerprint(self) -> str:
        """Return a text that is the same for the same error at the same step.

        Numbers in the error may differ. Empty if the error or the step is unknown, or its reason is outside the
        program and may pass.
        """
        if self.step is None or self.diagnosis is None or not self.diagnosis.evidence or self.is_consequence:
            return ""
        if self.diagnosis.kind in _PASSING_KINDS:
            return ""
        return f"{re.sub('[0-9]+', '0', self.diagnosis.evidence[0].text)} at step {self.step!r}"

    @property
    def is_consequence(self) -> bool:
        """Return True if the program failed because another task did."""
        return self.diagnosis is not None and self.diagnosis.is_consequence
