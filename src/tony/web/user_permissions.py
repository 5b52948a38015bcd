"""An authenticated portal user and their permissions on jobs."""

from __future__ import annotations

import grp
import os
import pwd
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

from tony import clock
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction
from tony.web.job_provider import LISTS

#: In a job's viewers or editors: every authenticated user.
ALL_USERS = "*"
#: How long a user's groups are cached.
_GROUPS_CACHE_SECONDS = 60.0
#: Users whose groups are cached.
_MAX_CACHED_USERS = 1000


class AuthMethod(Enum):
    """Method by which a user was authenticated."""

    PEER = "peer"  #: by the UID of the connecting process, as the kernel reports it
    TOKEN = "token"  #: by an API token in the request
    SESSION = "session"  #: by a session cookie obtained with a token
    PROXY = "proxy"  #: by a trusted proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A `PortalUser` as authenticated by `auth.Authenticator`.

    Attributes:
        name: empty if a trusted proxy admitted the request without a user name.
        groups: without the `@`.
        sees_all: may see every job served here.
        admin: may also change every job.
        token: see `PortalUser`.
        earlier: the previous value of `token`: pages loaded hours ago may still send it.
        until: expiry of the login, seconds since 1970; None: it does not expire.
    """

    name: str
    how: AuthMethod
    groups: frozenset[str] = frozenset()
    sees_all: bool = False
    admin: bool = False
    token: str = field(repr=False)
    earlier: str = field(repr=False)
    until: float | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every entry of a job's viewers or editors that matches this user."""
        own = {self.name} if self.name else set()
        return frozenset({*own, *(f"@{group}" for group in self.groups), ALL_USERS})

    @property
    def readers(self) -> tuple[str, ...]:
        return () if self.sees_all or self.admin else tuple(sorted(self.names))

    def may(self, action: PortalAction, job: JobHead | JobReport, record: JobRecord | None = None) -> bool:
        if self.admin or (self.sees_all and action is PortalAction.SEE):
            return True
        if self.name and self.name == job.user:
            return True
        allowed = set(job.editors)
        if record is not None:
            allowed.update(record.spec.editors)
        if action is PortalAction.SEE:
            allowed.update(job.viewers)
            if record is not None:
                allowed.update(record.spec.viewers)
        return not allowed.isdisjoint(self.names)


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
