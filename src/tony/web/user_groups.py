"""The OS groups of users."""

from __future__ import annotations

import grp
import os
import pwd
from collections import OrderedDict

from tony import clock
from tony.web.job_provider import LISTS

#: How long a user's groups are cached.
_GROUPS_CACHE_SECONDS = 60.0
#: Users whose groups are cached.
_MAX_CACHED_USERS = 1000


class Groups:
    """A cache of users' OS groups, looked up in a thread: a directory service (LDAP) may be slow."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def find_groups(self, user: str) -> frozenset[str]:
        """Return the names of a user's groups; none for a user unknown to this machine."""
        known = self._known.get(user)
        if known is not None and clock.monotonic() - known[0] < _GROUPS_CACHE_SECONDS:
            return known[1]
        found = await LISTS.run(_load_groups, user)
        self._known[user] = clock.monotonic(), found
        self._known.move_to_end(user)
        while len(self._known) > _MAX_CACHED_USERS:
            self._known.popitem(last=False)
        return found


def _load_groups(user: str) -> frozenset[str]:
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError, ValueError):
        return frozenset()
    return frozenset(name for number in numbers if (name := _find_group_name(number)))


def _find_group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except (KeyError, OSError):
        return ""
