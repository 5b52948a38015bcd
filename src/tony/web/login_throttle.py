"""Counts wrong tokens by the address that they come from.

Tokens are too long to be guessed: this keeps logs and hashing small, and says early that something is wrong. A right
token is always taken, so that nobody can keep others out by trying.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from tony import clock

#: Tries that are answered as usual; each further one doubles the time to wait, up to so many seconds.
_FREE, _LONGEST = 5, 300.0
#: Seconds after which an address begins anew, and addresses that are remembered.
_FORGOTTEN, _KEPT = 600.0, 10_000


class LoginThrottle:
    """Of one server."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, address: str) -> float:
        """One more from there; answers for how many seconds there should be no other, 0 for the first few."""
        place = _place(address)
        count, last = self._of.pop(place, (0, 0.0))
        now = clock.monotonic()
        count = count + 1 if now - last < _FORGOTTEN else 1
        self._of[place] = count, now
        while len(self._of) > _KEPT:
            self._of.popitem(last=False)
        return 0.0 if count <= _FREE else min(_LONGEST, 2.0 ** min(count - _FREE, 30))


def _place(address: str) -> str:
    """Of IPv6 the network: who has one address there has all of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
