"""What is known of a failure, from which its sentence is made (`core/sentences.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitFacts:
    """A program exited.

    Attributes:
        exit_message: what the executor reported; empty if exit code or signal suffice.
    """

    exit_message: str


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
    """

    container: ContainerLoss
    end: str
    launches: int = 0


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
