"""Authorization: what a user may see and change. Every page and API operation checks here first.

`user_authentication.py` has the `AuthBackend` of a server; this module has the interface that pages depend on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tony.errors import TonyError
from tony.model.job_query import Facets, JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord

if TYPE_CHECKING:
    from starlette.requests import Request

    from tony.jobs.directory.view import DirectoryJobView
    from tony.web.job_provider import JobProvider


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


class PortalUser(Protocol):
    """An authenticated user of the portal."""

    @property
    def name(self) -> str:
        """The user name, for pages and events; empty if a proxy admitted the request without one."""

    @property
    def token(self) -> str:
        """The CSRF token of this user's pages, sent with each request that changes something."""

    @property
    def readers(self) -> tuple[str, ...]:
        """For `Query.readers`: the names that grant this user access to jobs; empty: may see every job."""

    def may(self, action: PortalAction, job: JobHead | JobReport, record: JobRecord | None = None) -> bool:
        """Return True if the user has permission. `record`, if given, adds its viewers and editors."""


class AuthBackend(Protocol):
    """Authenticates requests."""

    async def authenticate(self, request: Request) -> PortalUser | AccessDenied:
        """Authenticate a request; return its user, or why it is refused."""

    def check_change(self, request: Request, portal_user: PortalUser, token: str) -> AccessDenied | None:
        """Check that the user intended a request that changes something; return why it is refused, or None.

        Args:
            token: the CSRF token sent with the request.
        """


async def list_visible_jobs(portal_user: PortalUser, provider: JobProvider, query: Query) -> JobsPage:
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


async def find_job(
    portal_user: PortalUser, provider: JobProvider, job: str
) -> tuple[DirectoryJobView, JobReport] | None:
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
