"""The job provider interface of pages and API. Implementations: the portal's index, a single job.

All methods are asynchronous and do blocking work in threads (`linux/thread_pools.py`). Unknown values are None or
empty. A part that cannot be read raises `TonyError`: the page then shows the error for that part, and everything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from tony.history.event_log import LogEntry
from tony.history.goodput import GoodputLedger
from tony.history.metrics_reader import Metrics
from tony.history.timeline import Timeline
from tony.model.job_query import JobsPage, Query
from tony.model.job_report import JobReport
from tony.model.submission_record import JobRecord
from tony.protocol.messages import Stacks
from tony.schedulers.interface import WebLink

#: Maximum bytes of a log per read.
LOG_PIECE = 1 << 20
#: How many events before the last one a request may start.
MOST_LATEST_EVENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a job directory.

    Attributes:
        path: relative to the job directory, with `/`.
        size: in bytes.
        changed: modification time, seconds since 1970.
        readable: whether its content may be downloaded; False for secrets and anything but plain files.
    """

    path: str
    size: int
    changed: float
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileInfo:
    """One output stream of one task attempt.

    Attributes:
        task: `worker:0`.
        stream: `out` or `err`.
        size: bytes available; rotated parts are not included.
    """

    name: str
    task: str
    session: int
    try_: int
    stream: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBytes:
    """A part of a log.

    Attributes:
        offset: position of the first byte of `data` among the bytes available.
        size: bytes available now.
    """

    offset: int
    data: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearchResult:
    """The result of a search in a log.

    Attributes:
        line: offset of the line that contains the text; None if it was not found.
        until: offset up to which the log was searched: continue there, whether or not the text was found.
        over: the search has reached the end of the log.
    """

    line: int | None
    until: int
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContainer:
    """A container of a task, current or earlier.

    Attributes:
        links: web pages of the scheduler about it.
    """

    container: str
    host: str
    links: tuple[WebLink, ...] = ()


class Logs(Protocol):
    """The logs of one task. Offsets count the bytes available, from 0."""

    async def missing(self) -> str:
        """Return which output could not be fetched from other machines, why, and what to do; empty if none."""

    async def files(self) -> Sequence[LogFileInfo]:
        """Return all logs, by session and task attempt, `out` before `err`."""

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """Read up to `most` bytes (never more than `LOG_PIECE`) from `offset` on; fewer at the end.

        Args:
            offset: if negative, relative to the end.

        Raises:
            LookupError: there is no such log.
        """

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        """Search for `text`, ignoring ASCII case, from `offset` on, or before it if `backwards`.

        Searches a limited part of the log per call.

        Raises:
            LookupError: there is no such log.
        """

    def all_of(self, name: str) -> AsyncIterator[bytes]:
        """Yield the whole log in chunks, up to its size at the start."""


class ServedJob(Protocol):
    """One job."""

    @property
    def job(self) -> str:
        """The job's id."""

    @property
    def can_change(self) -> bool:
        """True if the job can be changed from here: it belongs to the OS user of this process."""

    @property
    def live(self) -> bool:
        """True if the job had not ended when last checked."""

    async def report(self) -> JobReport:
        """Return the status of the job and its tasks."""

    async def record(self) -> JobRecord | None:
        """Return the resolved job, without secrets; None if it was not kept."""

    async def events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[LogEntry]:
        """Return up to `most` events in order, those with a number (`LogEntry.seq`) above `after`.

        Args:
            after: if negative, start that many events before the last one.
            kinds: of events (`Event.kind`); empty: all kinds.
        """

    async def timeline(self) -> Timeline | None:
        """Return the timeline of the tasks, up to now if the job runs; None if the events were not kept."""

    async def goodput(self) -> GoodputLedger | None:
        """Return where the time went; None if the events were not kept."""

    async def metrics(self) -> Metrics | None:
        """Return the metrics, to be closed by the caller; None if there are none or they cannot be read."""

    async def links(self) -> Sequence[WebLink]:
        """Return links to the scheduler's web pages about the job; empty if the scheduler has none.

        Raises:
            TonyError: the addresses cannot be determined.
        """

    async def containers(self, task: str) -> Sequence[TaskContainer]:
        """Return the containers of a task, newest first; empty if the scheduler has no pages about containers.

        Raises:
            TonyError: the addresses of the pages cannot be determined.
        """

    async def files(self) -> Sequence[RecordFile]:
        """Return the files of the job directory by path; a few thousand at most."""

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        """Return the content of a file in chunks; None if it does not exist or is not `readable`."""

    def logs(self, task: str) -> Logs:
        """Return the output of one task."""

    # --- changes: the caller has checked the user's permission --------------------------------------------------------

    async def stop(self, actor: str) -> None:
        """Stop the job. Its events name `actor`.

        Raises:
            TonyError: the job has ended, or its AM cannot be reached.
        """

    async def restart(self, actor: str) -> None:
        """Stop the current session and start the next. Raises as `stop` does."""

    async def stacks(self, task: str, actor: str) -> Stacks:
        """Return the stack traces of a task's program. Raises as `stop` does, and if there are no stack traces."""

    async def log_level(self, level: str, actor: str) -> None:
        """Set the log level of the application master and its executors. Raises as `stop` does."""


class Source(Protocol):
    """A job provider: many jobs, or a single one."""

    @property
    def title(self) -> str:
        """A few words that describe these jobs, for pages."""

    async def jobs(self, query: Query) -> JobsPage:
        """Return a page of the matching jobs.

        Raises:
            ValueError: `query.after` is not a page cursor.
        """

    async def job(self, job: str) -> ServedJob | None:
        """Return a job by its full id; None if there is no such job."""
