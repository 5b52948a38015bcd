"""Nodes that a job's new pods avoid because its tasks failed there, as long as other nodes have room.

The AM may not list nodes. A pod only prefers other nodes, so one that gets an excluded node all the same shows that no
other could take it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tony.core.events import Event, Excluded

_log = logging.getLogger(__name__)


class ExcludedNodes:
    """The nodes that the job excludes now.

    Args:
        emit: receives `Excluded` with all of them when they have changed.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._nodes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self._nodes

    def exclude(self, node: str) -> None:
        if node not in self._nodes:
            self._set((*self._nodes, node))

    def include(self, node: str) -> None:
        if node in self._nodes:
            self._set(tuple(each for each in self._nodes if each != node))

    def note_node(self, node: str, avoided: tuple[str, ...]) -> None:
        """Include the node of a new pod, if the pod was to avoid it: no other node has room."""
        if node in avoided and node in self._nodes:
            _log.warning("%s is no longer excluded although tasks fail there: no other node has room", node)
            self.include(node)

    def _set(self, nodes: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._emit(Excluded(hosts=nodes))
