"""Count wrong tokens per client address and tell the client how long to wait.

Tokens are too long to be guessed; the throttle limits logging and hashing, and reports a misconfigured client early.
A valid token is always accepted, so that one client cannot lock others out.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from tony import clock

#: Wrong tokens without a delay; each further one doubles the delay, up to the maximum.
_FREE_FAILURES = 5
_MAX_DELAY_SECONDS = 300.0
#: Time without a wrong token after which an address starts again from zero.
_RESET_SECONDS = 600.0
_MAX_ADDRESSES = 10_000


class LoginThrottle:
    """Wrong tokens per client address, of one server."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, address: str) -> float:
        """Count a wrong token; return the seconds to wait before the next attempt, 0 for the first few."""
        client = _find_client_network(address)
        count, last = self._failures.pop(client, (0, 0.0))
        now = clock.monotonic()
        count = count + 1 if now - last < _RESET_SECONDS else 1
        self._failures[client] = count, now
        while len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return 0.0 if count <= _FREE_FAILURES else min(_MAX_DELAY_SECONDS, 2.0 ** min(count - _FREE_FAILURES, 30))


def _find_client_network(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, in which one client can use every address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
