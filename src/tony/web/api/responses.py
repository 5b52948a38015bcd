"""Answers of the API that are no nouns of `model/`."""

from __future__ import annotations

from collections.abc import Mapping

from tony.config.resolved_table import ResolvedRow
from tony.dataclass import dataclass, field
from tony.history.progress_records import CheckpointRecord
from tony.history.timeline import Mark, SessionSpan, Span, TaskResources
from tony.model.codec import Json
from tony.model.job_query import Facets
from tony.model.job_report import TaskReport
from tony.model.job_summary import JobHead
from tony.model.progress import JobProgress, Progress
from tony.schedulers.interface import WebLink
from tony.web.job_source import LogFileInfo, RecordFile, TaskContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacts:
    """What is wrong, and the way out.

    Attributes:
        code: a stable word.
        message: one sentence.
        advice: what to do; empty where nobody knows.
    """

    status: int
    code: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """Every answer that is none."""

    error: ErrorFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Who asks, as this server knows.

    Attributes:
        user: empty if no name is known.
        how: `peer`, `token`, `session`, `proxy`.
        admin: may see and change every job.
        page_token: goes with every change that is asked for without a token of one's own.
        title: whose jobs are served here.
        only: the job that is served alone; empty where there are many.
    """

    user: str
    how: str
    admin: bool
    page_token: str
    title: str
    only: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """A page of jobs.

    Attributes:
        next: `after` of the next page; empty on the last one. The header `WebLink` has its address.
        total: how many match; null if nobody has counted.
        problems: one sentence for each place whose jobs may be missing.
    """

    jobs: tuple[JobHead, ...]
    next: str
    total: int | None
    facets: Facets
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskList:
    """A page of a job's tasks; `next` is the `after` of the next page, and empty on the last one."""

    tasks: tuple[TaskReport, ...]
    next: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """One event, as `tony events --json` prints it, and in words.

    Attributes:
        seq: its number, from 1 on, without gaps.
        at: seconds since the job was accepted; wall: seconds since 1970.
    """

    seq: int
    at: float
    wall: float
    attempt: int
    event: str
    data: Json
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """Some events; `next` is the `after` with which to go on. `over`: none will follow."""

    events: tuple[EventLine, ...]
    next: int
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """A job's life as spans and marks; seconds since it was accepted.

    Attributes:
        accepted: seconds since 1970.
        marks: the latest 10,000.
        spans: of some tasks; all else is of the whole job.
        next: `after` of the next tasks; empty if there are none.
    """

    job: str
    accepted: float
    until: float
    began: float | None
    ended: float | None
    sessions: tuple[SessionSpan, ...]
    marks: tuple[Mark, ...]
    roles: Mapping[str, TaskResources]
    queued: tuple[tuple[float, float], ...]
    spans: tuple[Span, ...]
    next: str
    doubt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesName:
    """A kind of number that was measured.

    Attributes:
        unit: `cores`, `B`, `B/s`, `share`...
        of_host: it is counted for the whole host.
    """

    name: str
    unit: str
    what: str
    of_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsIndex:
    """What was measured of a job, and of whom; what programs told of themselves.

    Attributes:
        job_progress: how far the job is; null as long as no program has reported a step.
        problem: why it is less than there should be; empty if nothing is wrong.
    """

    tasks: tuple[str, ...]
    series: tuple[SeriesName, ...]
    progress: tuple[Progress, ...]
    job_progress: JobProgress | None
    checkpoints: tuple[CheckpointRecord, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkList:
    """The scheduler's own pages.

    Attributes:
        links: about the job.
        containers: those that the task has had, if one was asked for, the last one first.
    """

    links: tuple[WebLink, ...]
    containers: tuple[TaskContainer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogList:
    """What one task printed: a file for each stream of each try.

    Attributes:
        missing: what of it lies elsewhere and could not be had, and why; empty if that is nothing.
    """

    logs: tuple[LogFileInfo, ...]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """A piece of a log.

    Attributes:
        offset: of its first byte, among the bytes that there are; next: where to go on.
        size: bytes that there are now.
        text: those bytes; what is no UTF-8, and what looks like a secret, is replaced.
    """

    name: str
    offset: int
    next: int
    size: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The resolved job: every value and where it was set. Secrets are masked.

    Attributes:
        submitted: seconds since 1970.
    """

    job: str
    user: str
    host: str
    submitted: float
    tony_version: str
    settings: tuple[ResolvedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The files of a job's record."""

    files: tuple[RecordFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for is on its way.

    Attributes:
        asked: what.
        actor: who is named for it in the job's events.
    """

    job: str
    asked: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStacks:
    """Where every thread of a task's program stands.

    Attributes:
        how: what has looked: `py-spy`, `faulthandler`, `kernel`, with commas between several.
        problem: why not better, for people; else empty.
        name: of the file among the logs in which it is kept.
    """

    job: str
    task: str
    text: str
    how: str
    problem: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBody:
    """Body of a request that changes something; may be left out by whoever sends a token of their own.

    Attributes:
        token: of the page, `page_token` of `/api/v1/me`.
    """

    token: str = field(default="", repr=False)
