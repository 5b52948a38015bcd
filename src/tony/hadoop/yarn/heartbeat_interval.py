"""The intervals between an AM's heartbeats to the ResourceManager."""

from __future__ import annotations

from dataclasses import dataclass

from tony.retry import Backoff

#: Seconds after a change during which answers are likely.
_JUST_NOW_SECONDS = 1.0
#: Before a rejected request is repeated.
_RETRY = Backoff(first=1.0, most=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatInterval:
    """Heartbeat intervals in seconds: fast while changes are expected, slow otherwise.

    Attributes:
        fast: interval while containers are outstanding, or shortly after a change.
        slow: interval when nothing is expected; also the longest while containers are outstanding.
        settle: time after a change during which the interval stays fast: containers tend to end in groups.
        share: the interval grows with the time waited; it is at least this fraction of it.
        first: fraction of `fast` used while a request of the last second is outstanding: a scheduler that does not
            wait for node heartbeats grants it in milliseconds.
        least: minimum between any two heartbeats.
        retry_delays: delays before a rejected request is repeated; they grow each time nothing of it is granted.
    """

    fast: float = 0.05
    slow: float = 1.0
    settle: float = 2.0
    share: float = 0.01
    first: float = 0.4
    least: float = 0.01
    retry_delays: Backoff = _RETRY

    def compute_interval(self, since_change: float, *, wanting: bool) -> float:
        """Return the seconds until the next heartbeat if nothing happens before.

        Args:
            since_change: seconds since the last change, local or in the ResourceManager.
            wanting: whether requested containers are outstanding.
        """
        if wanting and since_change < _JUST_NOW_SECONDS:
            return self.fast * self.first
        if wanting:
            return max(self.fast, min(self.slow, since_change * self.share))
        return self.fast if since_change < self.settle else max(self.fast, self.slow)
