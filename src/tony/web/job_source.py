"""What pages and API ask for jobs. Whoever has some implements it: a home, an index, the folder of one job.

Everything here is awaited and holds up nobody: what blocks goes to a thread (`linux/threads.py`). What is not known is
None or empty, and a part that cannot be read raises `TonyError`: that part of a page says so, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set
from typing import Protocol

from tony.dataclass import dataclass
from tony.history.event_log import LogEntry
from tony.history.goodput import GoodputLedger
from tony.history.metrics_reader import Metrics
from tony.history.timeline import Timeline
from tony.model.job_query import JobsPage, Query
from tony.model.job_record import JobRecord
from tony.model.job_report import JobReport
from tony.protocol.messages import Stacks
from tony.schedulers.interface import WebLink

#: Bytes of a log that are read at once, at most.
LOG_PIECE = 1 << 20
#: Events before the last one that an answer may begin with.
MOST_LATEST_EVENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a job's record.

    Attributes:
        path: below the job's folder, with `/`.
        size: bytes.
        changed: seconds since 1970.
        readable: its content may be shown; secrets and what is no plain file may not.
    """

    path: str
    size: int
    changed: float
    readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileInfo:
    """What one program printed to one of its two streams.

    Attributes:
        task: `worker:0`.
        stream: `out` or `err`.
        size: bytes that there are; of what was rotated away nothing is left.
    """

    name: str
    task: str
    session: int
    try_: int
    stream: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBytes:
    """A piece of a log.

    Attributes:
        offset: of the first byte of `data`, among the bytes that there are.
        size: bytes that there are now.
    """

    offset: int
    data: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearchResult:
    """Answer to a search.

    Attributes:
        line: offset of the first byte of the line in which the text stands; None if it was not found.
        until: up to where it was searched: where to go on, whether or not anything was found.
        over: there is nothing left to search.
    """

    line: int | None
    until: int
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContainer:
    """A container that a task has had.

    Attributes:
        links: its scheduler's own pages about it.
    """

    container: str
    host: str
    links: tuple[WebLink, ...] = ()


class Logs(Protocol):
    """The logs of one task. Offsets count the bytes that there are, from 0."""

    async def missing(self) -> str:
        """What of them lies elsewhere and could not be had, why, and what to do; empty if that is nothing."""

    async def files(self) -> Sequence[LogFileInfo]:
        """All of them, in the order of sessions and tries, `out` before `err`."""

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """At most `most` bytes (`LOG_PIECE` at the very most) from `offset` on, fewer at the end.

        Args:
            offset: negative: so many bytes before the end.

        Raises:
            LookupError: there is no such log.
        """

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        """Looks for `text`, A to Z and a to z alike, from `offset` on, or before it: `backwards`. A part at a time.

        Raises:
            LookupError: there is no such log.
        """

    def all_of(self, name: str) -> AsyncIterator[bytes]:
        """All bytes, piece by piece, as many as there were at the beginning."""


class JobView(Protocol):
    """One job."""

    @property
    def job(self) -> str:
        """Its id."""

    @property
    def can_change(self) -> bool:
        """Whether the job can be changed from here: it belongs to the user of this process."""

    @property
    def live(self) -> bool:
        """It had not ended when it was found."""

    async def report(self) -> JobReport:
        """How it stands."""

    async def record(self) -> JobRecord | None:
        """Who submitted what, without secrets; None if that was not kept."""

    async def events(self, after: int = 0, most: int = 500, kinds: Set[str] = frozenset()) -> Sequence[LogEntry]:
        """What happened, in order: those of numbers (`LogEntry.seq`) above `after`, at most `most`.

        Args:
            after: negative: begin so many before the last one.
            kinds: of events (`Event.kind`); none for all.
        """

    async def timeline(self) -> Timeline | None:
        """What its tasks did when; up to now for a job that runs. None if no events were kept."""

    async def goodput(self) -> GoodputLedger | None:
        """Where the time went; None if no events were kept."""

    async def metrics(self) -> Metrics | None:
        """What was measured, to be closed by who asked; None if nothing was, or nothing can be read."""

    async def links(self) -> Sequence[WebLink]:
        """Its scheduler's own pages that show it; none where there are none, or nobody says where.

        Raises:
            TonyError: it is not known where they would be.
        """

    async def containers(self, task: str) -> Sequence[TaskContainer]:
        """The containers that a task has had, the last one first; only those of schedulers that show them.

        Raises:
            TonyError: it is not known where they would be shown.
        """

    async def files(self) -> Sequence[RecordFile]:
        """The files of its record, by path; some thousand at most."""

    async def file(self, path: str) -> AsyncIterator[bytes] | None:
        """The content of one of them, piece by piece; None if there is no such file, or it is not `readable`."""

    def logs(self, task: str) -> Logs:
        """What one task printed."""

    # --- what changes it: whoever calls these has asked the gate ------------------------------------------------------

    async def stop(self, actor: str) -> None:
        """Ends it. `actor` stands in its events.

        Raises:
            TonyError: it has ended, or nobody can be told.
        """

    async def restart(self, actor: str) -> None:
        """Ends this session and begins the next. Raises as `stop` does."""

    async def stacks(self, task: str, actor: str) -> Stacks:
        """Where every thread of a task's program stands. Raises as `stop` does, also if nothing can be told."""

    async def log_level(self, level: str, actor: str) -> None:
        """How much its application master and executors log from now on. Raises as `stop` does."""


class Source(Protocol):
    """Many jobs, or the only one."""

    @property
    def title(self) -> str:
        """Whose jobs these are, for people: a few words."""

    async def jobs(self, query: Query) -> JobsPage:
        """A page of those that are wanted.

        Raises:
            ValueError: `query.after` is no answer of ours.
        """

    async def job(self, job: str) -> JobView | None:
        """One of them, by its whole id; None if there is no such job."""
