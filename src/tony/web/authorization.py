"""Authorization: what a user may see and change. Every page and API operation checks here first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from tony.errors import TonyError
from tony.model.job_query import Facets, JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord

if TYPE_CHECKING:
    from tony.jobs.directory.view import DirectoryJobView
    from tony.web.job_provider import JobProvider

#: In a job's viewers or editors: every authenticated user.
ALL_USERS = "*"


class PortalAction(Enum):
    """An action on a job that needs permission."""

    SEE = "see"
    CHANGE = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDenied:
    """A refused request.

    Attributes:
        status: HTTP status: 401 if a login may help, 429 after too many failed logins, else 403.
        reason: why, and what to do; shown to the user.
        wait: seconds to wait before the next attempt; 0: none.
    """

    status: int
    reason: str
    wait: float = 0.0


class AuthMethod(Enum):
    """Method by which a user was authenticated."""

    PEER = "peer"  #: by the UID of the connecting process, as the kernel reports it
    TOKEN = "token"  #: by an API token in the request
    SESSION = "session"  #: by a session cookie obtained with a token
    PROXY = "proxy"  #: by a trusted proxy
    NONE = ""  #: not authenticated: of error pages


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An authenticated user of the portal.

    Attributes:
        name: for pages and events; empty if a trusted proxy admitted the request without a user name.
        groups: without the `@`.
        sees_all: may see every job served here.
        admin: may also change every job.
        token: the CSRF token of this user's pages, sent with each request that changes something.
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
        """For `Query.readers`: the names that grant this user access to jobs; empty: may see every job."""
        return () if self.sees_all or self.admin else tuple(sorted(self.names))

    def may(self, action: PortalAction, job: JobHead | JobReport, record: JobRecord | None = None) -> bool:
        """Return True if the user has permission. `record`, if given, adds its viewers and editors."""
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


#: The user of error pages for requests that were refused.
UNAUTHENTICATED = User(name="", how=AuthMethod.NONE, token="", earlier="")


async def list_visible_jobs(portal_user: User, provider: JobProvider, query: Query) -> JobsPage:
    """Return a page of the matching jobs that the user may see. Always use this instead of `JobProvider.list_jobs`.

    A user who may not see every job does not learn which other users have jobs, or how many jobs there are.

    Raises:
        ValueError: `query.after` is not a page cursor.
    """
    page = await provider.list_jobs(replace(query, readers=portal_user.readers))
    if not portal_user.readers:
        return page
    heads = tuple(head for head in page.heads if portal_user.may(PortalAction.SEE, head))
    facets = replace(Facets(), states=page.facets.states, frameworks=page.facets.frameworks)
    sees_all = len(heads) == len(page.heads)
    return replace(page, heads=heads, total=page.total if sees_all else None, facets=facets, problems=())


async def find_job(portal_user: User, provider: JobProvider, job: str) -> tuple[DirectoryJobView, JobReport] | None:
    """Return a job and its report; None if it does not exist, or the user may not see it.

    Raises:
        TonyError: its directory cannot be read; raised only for users who may see the job in the list.
    """
    try:
        view = await provider.find_job(job)
        report = await view.status() if view is not None else None
    except TonyError:
        if portal_user.readers:
            page = await list_visible_jobs(portal_user, provider, Query(text=job))
            if all(head.job != job for head in page.heads):
                return None
        raise
    if view is None or report is None or not portal_user.may(PortalAction.SEE, report):
        return None
    return view, report
