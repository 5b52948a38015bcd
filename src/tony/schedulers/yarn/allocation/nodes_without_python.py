"""Nodes without a suitable Python: they are excluded, and after a few the role cannot start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tony.core.events import Event, Unsatisfiable

#: With this many nodes without Python, the rest is not tried.
_MAX_TRIED_NODES = 3
_log = logging.getLogger(__name__)


class NodesWithoutPython:
    """The nodes without a suitable Python that this job has found.

    Args:
        others: role -> number of nodes that could run its tasks; for a missing role it is unknown, so the first such
            node is enough.
        leave_out: blacklists a host.
        emit: receives events.
    """

    def __init__(
        self, others: Mapping[str, int], *, leave_out: Callable[[str], None], emit: Callable[[Event], None]
    ) -> None:
        self._others, self._leave_out, self._emit = others, leave_out, emit
        self._hosts: dict[str, None] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._hosts)

    def add(self, role: str, host: str, message: str) -> None:
        """Record that a container failed because its host has no suitable Python.

        Args:
            message: message of the launch script: host, what was found, which setting.
        """
        if host not in self._hosts:
            _log.warning("host %s is excluded (blacklisted): %s", host, message)
            self._hosts[host] = None
            self._leave_out(host)
        if len(self._hosts) >= min(_MAX_TRIED_NODES, self._others.get(role, 1)):
            before = [each for each in self._hosts if each != host]
            also = f" The same error occurred on {', '.join(before)}." if before else ""
            self._emit(Unsatisfiable(role=role, reason=f"cannot start any task of {role}: {message}{also}"))
