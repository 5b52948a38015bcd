"""The requester of a change to a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ActorKind(Enum):
    """Kind of requester: a user, a signal to the AM, or the scheduler."""

    USER = "user"
    SIGNAL = "signal"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class Actor:
    """The requester of a change to a job.

    Attributes:
        name: the user, the signal (`SIGTERM`), or the scheduler's own words.
    """

    name: str
    kind: ActorKind = ActorKind.USER

    def __str__(self) -> str:
        return f"signal {self.name}" if self.kind is ActorKind.SIGNAL else self.name
