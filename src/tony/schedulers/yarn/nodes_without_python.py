"""Nodes without a Python for our programs: each costs one try, and what is wrong is said when there are no others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tony.core.events import Event, Unsatisfiable

#: So many nodes without any are no exception: that more have one is not tried out.
_ENOUGH = 3
_log = logging.getLogger(__name__)


class UnfitNodes:
    """The nodes on which none was found, as far as this job has tried.

    Args:
        others: role -> how many nodes could have its tasks; for one that is not in it nobody knows, so the first is
            enough.
        leave_out: has YARN give nothing on a host any more.
        tell: takes what is told.
    """

    def __init__(
        self, others: Mapping[str, int], *, leave_out: Callable[[str], None], tell: Callable[[Event], None]
    ) -> None:
        self._others, self._leave_out, self._tell = others, leave_out, tell
        self._hosts: dict[str, None] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._hosts)

    def found(self, role: str, host: str, said: str) -> None:
        """A container ended there for want of one.

        Args:
            said: in the words of what looked for it: host, what was found, which setting.
        """
        if host not in self._hosts:
            _log.warning("nothing of this job goes to %s any more: %s", host, said)
            self._hosts[host] = None
            self._leave_out(host)
        if len(self._hosts) >= min(_ENOUGH, self._others.get(role, 1)):
            before = [each for each in self._hosts if each != host]
            also = f" It was the same on {', '.join(before)}." if before else ""
            self._tell(Unsatisfiable(role=role, reason=f"no task of {role} can be started: {said}{also}"))
