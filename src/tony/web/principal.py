"""Somebody who was let in, and what a job lets them do."""

from __future__ import annotations

import grp
import os
import pwd
from collections import OrderedDict
from enum import Enum

from tony import clock
from tony.dataclass import dataclass, field
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.web.authorization import PortalAction
from tony.web.lanes import LISTS

#: By this word a job lets everybody in who is let in at all.
EVERYBODY = "*"
#: Seconds for which a user's groups are taken as they were, and users of whom that is kept.
_FRESH, _KEPT = 60.0, 1000


class AuthMethod(Enum):
    """How it is known who somebody is."""

    PEER = "peer"  #: the kernel says whose process it is
    TOKEN = "token"  #: a token of their own, sent along
    SESSION = "session"  #: a cookie that they got for such a token
    PROXY = "proxy"  #: a proxy that is believed says so


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """As `Visitor`.

    Attributes:
        name: empty for somebody whom a proxy lets through without a name.
        groups: without the `@`.
        all_seen: may see whatever is served here; admin: may change it, too.
        token: see `Visitor`; earlier: one that their pages may have from some hours ago.
        until: seconds since 1970 until which they are let in; None: as long as they come.
    """

    name: str
    how: AuthMethod
    groups: frozenset[str] = frozenset()
    all_seen: bool = False
    admin: bool = False
    token: str = field(repr=False)
    earlier: str = field(repr=False)
    until: float | None = None

    @property
    def names(self) -> frozenset[str]:
        """All that a job may call them."""
        own = {self.name} if self.name else set()
        return frozenset({*own, *(f"@{group}" for group in self.groups), EVERYBODY})

    @property
    def readers(self) -> tuple[str, ...]:
        """As `Visitor`."""
        return () if self.all_seen or self.admin else tuple(sorted(self.names))

    def may(self, action: PortalAction, job: JobHead | JobReport, record: JobRecord | None = None) -> bool:
        """As `Visitor`."""
        if self.admin or (self.all_seen and action is PortalAction.SEE):
            return True
        if self.name and self.name == job.user:
            return True
        welcome = set(job.modifiers)
        if record is not None:
            welcome.update(record.spec.modifiers)
        if action is PortalAction.SEE:
            welcome.update(job.viewers)
            if record is not None:
                welcome.update(record.spec.viewers)
        return not welcome.isdisjoint(self.names)


class Groups:
    """Which groups of this machine a user is in, looked up beside the loop: a directory may be slow."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def of(self, user: str) -> frozenset[str]:
        """Their names; none for a user whom this machine does not know."""
        known = self._known.get(user)
        if known is not None and clock.monotonic() - known[0] < _FRESH:
            return known[1]
        found = await LISTS.run(_groups, user)
        self._known[user] = clock.monotonic(), found
        self._known.move_to_end(user)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found


def _groups(user: str) -> frozenset[str]:
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError, ValueError):
        return frozenset()
    return frozenset(name for number in numbers if (name := _group(number)))


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except (KeyError, OSError):
        return ""
