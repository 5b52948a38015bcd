"""Hosts to exclude for a while after failures, as long as enough others are left (YARN's AM node blacklist)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

#: At most every third node may be excluded.
_MIN_NODES_PER_EXCLUSION = 3
#: Seconds without any new container after which excluded hosts are used again rather than none.
_MAX_EXCLUSION_WAIT_SECONDS = 60.0
_log = logging.getLogger(__name__)


class NodeBlacklist:
    """Hosts that the job's policy excludes; YARN gets as many of them as is safe.

    Args:
        nodes: returns the number of nodes.
        suitable_nodes: role -> number of nodes that could run its tasks, as far as known.
        unfit: returns hosts on which no task can run; they stay excluded, and count.
        leave_out, take_back: update YARN's blacklist.
        changed: called with all blacklisted hosts when they have changed.
    """

    def __init__(
        self,
        nodes: Callable[[], int],
        suitable_nodes: Mapping[str, int],
        *,
        unfit: Callable[[], tuple[str, ...]],
        leave_out: Callable[[str], None],
        take_back: Callable[[str], None],
        changed: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._nodes, self._suitable_nodes, self._unfit = nodes, suitable_nodes, unfit
        self._leave_out, self._take_back, self._changed = leave_out, take_back, changed
        self._excluded: dict[str, None] = {}
        self._blacklisted: dict[str, None] = {}
        self._counted = nodes()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The blacklisted hosts."""
        return tuple(self._blacklisted)

    def exclude(self, host: str) -> None:
        """Exclude a host, if enough others are left."""
        if host not in self._excluded:
            self._excluded[host] = None
            self._update()
            if host not in self._blacklisted:
                _log.warning("%s is not excluded although tasks fail there: too few other nodes would be left", host)

    def include(self, host: str) -> None:
        """Undo an exclusion; another wanted one may become possible."""
        self._excluded.pop(host, None)
        self._update()

    def clear(self) -> None:
        """Drop all exclusions, since no other node has resources. They return only when the policy asks again."""
        for host in self._blacklisted:
            _log.warning("%s is no longer excluded although tasks fail there: no other node has resources", host)
        self._excluded.clear()
        self._update()

    def limit(self, *, is_waiting: bool, was_granted: bool) -> None:
        """Exclude hosts only as long as that does not keep the job from running.

        Args:
            is_waiting: the job waits for containers.
            was_granted: one has just been granted.
        """
        is_waiting = is_waiting and bool(self._blacklisted)
        if self._timer and (was_granted or not is_waiting):
            self.close()
        if is_waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_MAX_EXCLUSION_WAIT_SECONDS, self.clear)

    def close(self) -> None:
        """Stop the timer of `limit`."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def refresh(self) -> None:
        """Adapt to a changed number of nodes."""
        if self._nodes() != self._counted:
            self._update()

    def _update(self) -> None:
        self._counted = self._nodes()
        before = self.hosts
        unfit = self._unfit()
        most = min(
            self._nodes() // _MIN_NODES_PER_EXCLUSION,
            *(count - 1 for count in self._suitable_nodes.values()),
            self._nodes(),
        ) - len(unfit)
        allowed = [host for host in self._excluded if host not in unfit][: max(0, most)]
        for host in [each for each in self._blacklisted if each not in allowed]:
            del self._blacklisted[host]
            if host not in unfit:
                self._take_back(host)
        for host in allowed:
            if host not in self._blacklisted:
                _log.warning("host %s is excluded for a while (blacklisted): tasks of this job fail there", host)
                self._blacklisted[host] = None
                self._leave_out(host)
        if self.hosts != before:
            self._changed(self.hosts)
