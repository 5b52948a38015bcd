"""Hosts on which nothing is wanted for a while, as long as enough others are left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

#: At most every third node may be excluded.
_SHARE = 3
_log = logging.getLogger(__name__)


class Exclusions:
    """Hosts that the job's policy wants none of, and that YARN is told of as far as that is sound.

    Args:
        nodes: how many nodes there are.
        room: role -> how many nodes could have its tasks, as far as somebody has counted.
        unfit: hosts on which nothing can run; they stay out, and count.
        leave_out, take_back: tell YARN.
        changed: takes all hosts that YARN was told of, when they have changed.
    """

    def __init__(
        self,
        nodes: Callable[[], int],
        room: Mapping[str, int],
        *,
        unfit: Callable[[], tuple[str, ...]],
        leave_out: Callable[[str], None],
        take_back: Callable[[str], None],
        changed: Callable[[tuple[str, ...]], None] = lambda hosts: None,
    ) -> None:
        self._nodes, self._room, self._unfit = nodes, room, unfit
        self._leave_out, self._take_back, self._changed = leave_out, take_back, changed
        self._wanted: dict[str, None] = {}
        self._told: dict[str, None] = {}
        self._counted = nodes()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those that YARN was told of."""
        return tuple(self._told)

    def exclude(self, host: str) -> None:
        """Wants none of a host."""
        if host not in self._wanted:
            self._wanted[host] = None
            self._settle()
            if host not in self._told:
                _log.warning("%s is not left out although tasks fail there: too few other nodes would be left", host)

    def include(self, host: str) -> None:
        """Takes it back; perhaps another one's turn has come."""
        self._wanted.pop(host, None)
        self._settle()

    def give_way(self) -> None:
        """Nowhere else is room, so the job has to make do with them. They are not left out again until it says so."""
        for host in self._told:
            _log.warning("%s is left out no more although tasks fail there: there is no room elsewhere", host)
        self._wanted.clear()
        self._settle()

    def look(self) -> None:
        """There may be more nodes than before, or fewer."""
        if self._nodes() != self._counted:
            self._settle()

    def _settle(self) -> None:
        self._counted = self._nodes()
        before = self.hosts
        unfit = self._unfit()
        most = min(self._nodes() // _SHARE, *(count - 1 for count in self._room.values()), self._nodes()) - len(unfit)
        allowed = [host for host in self._wanted if host not in unfit][: max(0, most)]
        for host in [each for each in self._told if each not in allowed]:
            del self._told[host]
            if host not in unfit:
                self._take_back(host)
        for host in allowed:
            if host not in self._told:
                _log.warning("nothing of this job goes to %s for a while: its tasks fail there", host)
                self._told[host] = None
                self._leave_out(host)
        if self.hosts != before:
            self._changed(self.hosts)
