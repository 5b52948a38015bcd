"""One request for a page: who asks, for what, and where to find it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from tony.dataclass import dataclass
from tony.model.ids import TaskId
from tony.model.job_query import LONGEST
from tony.model.job_report import JobReport
from tony.web.authorization import PortalUser, find_job
from tony.web.job_source import JobView, Source
from tony.web.links import Links


class NotAnswered(Exception):  # noqa: N818 - what came of a request, not always an error
    """There is no such page, or not for this visitor.

    Attributes:
        status: of HTTP.
        title: what is wrong, in a few words; `what` to do now, one sentence.
    """

    def __init__(self, status: int, title: str, what: str) -> None:
        self.status = status
        self.title = title
        self.what = what
        super().__init__(title)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request by somebody who was let in.

    Attributes:
        only: the job that is served alone; empty where there are many.
    """

    request: Request
    visitor: PortalUser
    source: Source
    links: Links
    only: str = ""

    @property
    def words(self) -> Mapping[str, str]:
        """What the address says behind its question mark."""
        return self.request.query_params

    def word(self, name: str) -> str:
        """One word of the address; empty if it is not there.

        Raises:
            NotAnswered: it is too long.
        """
        text = self.words.get(name, "").strip()
        if len(text) > LONGEST:
            raise NotAnswered(400, "The address is too long", f"{name} has more than {LONGEST} characters.")
        return text

    def number(self, name: str, usual: int, least: int = 0, most: int = 2**53) -> int:
        """A whole number of the address, held to its bounds.

        Raises:
            NotAnswered: it is none.
        """
        text = self.word(name)
        if not text:
            return usual
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 17):
            raise NotAnswered(400, "The address makes no sense", f"{name} must be a whole number.")
        return min(max(int(text), least), most)

    async def job(self) -> tuple[JobView, JobReport]:
        """The job of the address.

        Raises:
            NotAnswered: there is none, or the visitor may not see it; nobody learns which of the two.
            TonyError: its record cannot be read.
        """
        job = self.only or self.request.path_params["job"]
        if found := await find_job(self.visitor, self.source, job):
            return found
        raise NotAnswered(404, "There is no such job here", "It may have been removed, or you may not see it.")

    def task(self, report: JobReport) -> TaskId:
        """The task of the address.

        Raises:
            NotAnswered: the job has no such task.
        """
        text = self.request.path_params["task"]
        try:
            found = TaskId.parse(text)
        except ValueError:
            found = None
        if found is None or not any(each.task == str(found) for each in report.tasks):
            raise NotAnswered(404, "The job has no such task", "Its page lists those that it has.")
        return found
