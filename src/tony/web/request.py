"""One request for a page: its user, parameters and job, and the addresses of other pages relative to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.requests import Request

from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.model.ids import TaskId
from tony.model.job_query import MAX_WORD_CHARACTERS
from tony.model.job_report import JobReport
from tony.web.authorization import User, find_job
from tony.web.held_requests import wait_for_job
from tony.web.server_context import ServerContext

#: The parameters of an address; as pairs, one of them may occur several times.
QueryWords = Mapping[str, str] | Sequence[tuple[str, str]]


class PageError(Exception):
    """The request for a page cannot be answered.

    Attributes:
        status: HTTP status.
        title: what is wrong, in a few words.
        what: details or what to do, one sentence.
    """

    def __init__(self, status: int, title: str, what: str) -> None:
        self.status = status
        self.title = title
        self.what = what
        super().__init__(title)


async def read_body(request: Request, max_bytes: int) -> bytes | None:
    """Return the body of a request; None if it is longer than `max_bytes`."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > max_bytes:
            return None
    return bytes(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """An authenticated request for a page."""

    context: ServerContext
    request: Request
    portal_user: User
    links: Links

    @property
    def words(self) -> Mapping[str, str]:
        """The query parameters."""
        return self.request.query_params

    def get_word(self, name: str) -> str:
        """Return a query parameter; empty if missing.

        Raises:
            PageError: it is too long.
        """
        text = self.words.get(name, "").strip()
        if len(text) > MAX_WORD_CHARACTERS:
            raise PageError(400, "The address is too long", f"{name} has more than {MAX_WORD_CHARACTERS} characters.")
        return text

    def get_number(self, name: str, usual: int, least: int = 0, most: int = 2**53) -> int:
        """Return an integer query parameter, clamped to its bounds; `usual` if missing.

        Raises:
            PageError: it is not an integer.
        """
        text = self.get_word(name)
        if not text:
            return usual
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 17):
            raise PageError(400, "Invalid address", f"{name} must be a whole number.")
        return min(max(int(text), least), most)

    async def find_job(self, job: str = "", shown: ShownFiles | None = None) -> tuple[DirectoryJobView, JobReport]:
        """Return a job, by default the one that the address names, and its report.

        Args:
            shown: what a page that follows the job shows of it. If the client has that already, wait until the job
                changes.

        Raises:
            PageError: there is none, or the user may not see it; the response does not reveal which.
            TonyError: its directory cannot be read.
        """
        job = job or self.context.only or self.request.path_params["job"]
        found = await find_job(self.portal_user, self.context.provider, job)
        if found and shown and not found[1].state.ended:
            self.set_version(await wait_for_job(self.request, self.context, found[0], shown))
            found = await find_job(self.portal_user, self.context.provider, job)
        if found:
            return found
        raise PageError(404, "Job not found", f"{job[:80]} does not exist, or you do not have permission to view it.")

    @property
    def version(self) -> str:
        """The version of what the page shows, for its next request; empty if it does not follow a job."""
        return getattr(self.request.state, "version", "")

    def set_version(self, version: str) -> None:
        """Set the version of what the page shows."""
        self.request.state.version = version

    def find_task(self, report: JobReport) -> TaskId:
        """Return the task that the address names.

        Raises:
            PageError: the job has no such task.
        """
        text = self.request.path_params["task"]
        try:
            found = TaskId.parse(text)
        except ValueError:
            found = None
        if found is None or not any(task.id == found for task in report.tasks):
            raise PageError(404, "Task not found", "The job has no such task; see its list of tasks.")
        return found


# --- addresses --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Builds relative URLs.

    Attributes:
        root: path from the current page to `/`: `./`, `../../`.
        only: the only job served, whose page is `/` itself; empty if many are served.
    """

    root: str
    only: str = ""

    @classmethod
    def from_path(cls, path: str, only: str = "") -> Links:
        """Return the links for a page at `path`."""
        return cls(root="../" * (path.count("/") - 1) or "./", only=only)

    def to_jobs(self, query: Mapping[str, str] | None = None) -> str:
        """Return the URL of the job list."""
        return f"{self.root}{_encode_query(query)}"

    def to_job(self, job: str, part: str = "", query: Mapping[str, str] | None = None) -> str:
        """Return the URL of a job's page, or of one of its tabs: `tasks`, `events`."""
        base = self.root if job == self.only else f"{self.root}job/{quote(job, safe='')}"
        if not part:
            return f"{base}{_encode_query(query)}"
        return f"{base.removesuffix('/')}/{part}{_encode_query(query)}"

    def to_task(self, job: str, task: TaskId | str) -> str:
        """Return the URL of a task's page."""
        return self.to_job(job, f"task/{_quote_task(task)}")

    def to_log(self, job: str, task: TaskId | str, stream: str = "", session: int | None = None) -> str:
        """Return the URL of a task's output; without a session, of the newest one."""
        return self.to_job(job, "logs", {"task": str(task), "stream": stream, "session": str(session or "")})

    def to_page(self, path: str, query: QueryWords | None = None) -> str:
        """Return the URL of any other page, by its path without the leading slash."""
        return f"{self.root}{path}{_encode_query(query)}"

    def to_asset(self, name: str) -> str:
        """Return the URL of a static file, by the name under which it is served."""
        return f"{self.root}assets/{name}"


def _quote_task(task: TaskId | str) -> str:
    return quote(str(task), safe=":")


def _encode_query(query: QueryWords | None) -> str:
    """Encode a query without empty parameters: the ResourceManager's proxy fails on those."""
    items = query.items() if isinstance(query, Mapping) else query or ()
    words = [(name, value) for name, value in items if value != ""]
    return f"?{urlencode(words)}" if words else ""
