"""The addresses of a session's tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


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


def place_among(index: int, absent: Collection[int]) -> int:
    """Return a task's position among those of its role that take part: the index that its program sees."""
    return index - sum(other < index for other in absent)
