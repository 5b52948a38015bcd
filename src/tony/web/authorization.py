"""Who may see and change what. Every page and every route of the API asks here first.

`auth.py` is the gate of a real server; here is what pages know of one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tony.dataclass import dataclass, replace
from tony.errors import TonyError
from tony.model.job_query import Facets, JobsPage, Query
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead

if TYPE_CHECKING:
    from starlette.requests import Request

    from tony.web.job_source import JobView, Source


class PortalAction(Enum):
    """What somebody wants to do with a job."""

    SEE = "see"
    CHANGE = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDenied:
    """Nobody is let in.

    Attributes:
        status: of HTTP: 401 if somebody who says who they are may be let in, 429 after too many tries, else 403.
        reason: for people: what is wrong, and what to do.
        wait: seconds after which another try may be made; 0 if that does not matter.
    """

    status: int
    reason: str
    wait: float = 0.0


class PortalUser(Protocol):
    """Somebody who was let in."""

    @property
    def name(self) -> str:
        """The user, for pages and for events; empty for somebody of whom no name is known."""

    @property
    def token(self) -> str:
        """A secret that our pages have and pages of others do not; whoever changes something sends it along."""

    @property
    def readers(self) -> tuple[str, ...]:
        """For `Query.readers`: the names by which jobs let them in; empty for one who may see all."""

    def may(self, action: PortalAction, job: JobHead | JobReport, record: JobRecord | None = None) -> bool:
        """Whether they may. Of `record`, if there is one, viewers and modifiers are known as well."""


class AuthBackend(Protocol):
    """Looks at who comes."""

    async def visitor(self, request: Request) -> PortalUser | AccessDenied:
        """Who it is, or why nobody is let in."""

    def change(self, request: Request, visitor: PortalUser, token: str) -> AccessDenied | None:
        """Why a request that changes something is not one of the visitor's own; None if it is.

        Args:
            token: that it brought along.
        """


class Shut:
    """Lets nobody in."""

    async def visitor(self, request: Request) -> PortalUser | AccessDenied:
        """As `AuthBackend`."""
        return AccessDenied(status=403, reason="Nobody is let in here.")

    def change(self, request: Request, visitor: PortalUser, token: str) -> AccessDenied | None:
        """As `AuthBackend`."""
        return AccessDenied(status=403, reason="Nobody changes anything here.")


async def jobs_for(visitor: PortalUser, source: Source, query: Query) -> JobsPage:
    """A page of the jobs that are wanted, without those that the visitor may not see. Use this, never `Source.jobs`.

    Who may not see all is not told either who else has jobs, and how many there are.

    Raises:
        ValueError: `query.after` is no answer of ours.
    """
    page = await source.jobs(replace(query, readers=visitor.readers))
    if not visitor.readers:
        return page
    heads = tuple(head for head in page.heads if visitor.may(PortalAction.SEE, head))
    facets = replace(Facets(), states=page.facets.states, frameworks=page.facets.frameworks)
    whole = len(heads) == len(page.heads)
    return replace(page, heads=heads, total=page.total if whole else None, facets=facets, problems=())


async def find_job(visitor: PortalUser, source: Source, job: str) -> tuple[JobView, JobReport] | None:
    """Return a job, and how it stands; None if there is none, or the visitor may not see it.

    Raises:
        TonyError: its record cannot be read, which only those learn to whom the job is listed.
    """
    try:
        view = await source.job(job)
        report = await view.report() if view is not None else None
    except TonyError:
        if visitor.readers:
            page = await jobs_for(visitor, source, Query(text=job))
            if all(head.job != job for head in page.heads):
                return None
        raise
    if view is None or report is None or not visitor.may(PortalAction.SEE, report):
        return None
    return view, report
