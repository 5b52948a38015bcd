"""How often a master's heartbeat goes to the ResourceManager."""

from __future__ import annotations

from tony.dataclass import dataclass

#: Seconds.
_JUST_NOW = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatInterval:
    """Fast while something is to be expected, slow while not; all in seconds.

    Attributes:
        fast: while containers are wanted, or something has just changed.
        slow: when nothing is expected; also the longest while containers are wanted and do not come.
        settle: for so long after a change it stays fast: ends come in groups.
        share: who has waited for long waits a little longer between two questions: this part of the time waited.
        first: of `fast`, this part while what was asked for within the last second has not come: a scheduler that
            does not wait for its nodes grants it in milliseconds.
        least: between any two heartbeats, however often one is asked for.
        again: before what found no place is asked for once more; twice as long each time that none of it comes.
        again_most: at most.
    """

    fast: float = 0.05
    slow: float = 1.0
    settle: float = 2.0
    share: float = 0.01
    first: float = 0.4
    least: float = 0.01
    again: float = 1.0
    again_most: float = 10.0

    def interval(self, since_change: float, *, wanting: bool) -> float:
        """Seconds until the next heartbeat, if nothing happens before.

        Args:
            since_change: seconds since something last changed here or there.
            wanting: whether containers are asked for that have not come.
        """
        if wanting and since_change < _JUST_NOW:
            return self.fast * self.first
        if wanting:
            return max(self.fast, min(self.slow, since_change * self.share))
        return self.fast if since_change < self.settle else max(self.fast, self.slow)
