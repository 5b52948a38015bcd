"""Who is where in one session."""

from __future__ import annotations

from collections.abc import Mapping

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The addresses of one session's gang.

    Attributes:
        session: the session it holds for.
        version: changes inside a session when one task is restarted; starts at 1.
        roles: role -> tuple of "host:port", index = task index; from registrations; roles in the job's order.
    """

    session: int
    version: int
    roles: Mapping[str, tuple[str, ...]]
