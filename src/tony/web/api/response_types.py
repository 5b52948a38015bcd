"""Response types of the API that are not in `model/`. Their docstrings are part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tony.config.resolved_table import ResolvedRow
from tony.history.timeline import Mark, SessionSpan, Span, TaskResources
from tony.jobs.directory.view import RecordFile, TaskContainer
from tony.model.codec import Json
from tony.model.job_query import Facets
from tony.model.job_report import TaskReport
from tony.model.job_summary import JobHead
from tony.model.progress import CheckpointRecord, JobProgress, Progress
from tony.model.web_link import WebLink


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacts:
    """An error and how to fix it.

    Attributes:
        status: HTTP status.
        code: stable identifier of the error.
        message: one sentence.
        advice: what to do; may be empty.
    """

    status: int
    code: str
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error response."""

    error: ErrorFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentUser:
    """The authenticated user.

    Attributes:
        user: user name; empty if unknown.
        how: authentication method: `peer`, `token`, `session`, `proxy`.
        admin: may see and change every job.
        page_token: CSRF token, required for changes without an API token.
        title: a few words that describe the jobs served here.
        only: the only job served; empty if many are served.
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
        next: `after` of the next page; empty on the last one. The `Link` header has its address.
        total: number of matching jobs; null if not counted.
        problems: one sentence for each history whose jobs may be missing.
    """

    jobs: tuple[JobHead, ...]
    next: str
    total: int | None
    facets: Facets
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskList:
    """A page of a job's tasks; `next` is the `after` of the next page, empty on the last one."""

    tasks: tuple[TaskReport, ...]
    next: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """An event, as printed by `tony events --json`, with a text.

    Attributes:
        seq: its number; consecutive, from 1.
        at: seconds since the job was accepted.
        wall: seconds since 1970.
        attempt: AM attempt.
        event: kind of the event.
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
    """A page of events; `next` is the `after` of the next page. `is_complete`: no more events will follow."""

    events: tuple[EventLine, ...]
    next: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """The timeline of a job for a page of its tasks; times in seconds since it was accepted.

    Attributes:
        accepted: seconds since 1970.
        marks: markers of the whole job; the latest 10,000.
        spans: of the tasks on this page; all other fields are about the whole job.
        next: `after` of the next page of tasks; empty on the last one.
        doubt: why the event log could not be interpreted completely; empty if it was.
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
    """A kind of metric.

    Attributes:
        unit: `cores`, `B`, `B/s`, `share`...
        what: description.
        of_host: it is measured for the whole host.
    """

    name: str
    unit: str
    what: str
    of_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsIndex:
    """The metrics available for a job, and the progress that its programs reported.

    Attributes:
        tasks: tasks with metrics.
        job_progress: progress of the job; null until a program has reported a step.
        problem: why metrics are incomplete; empty if they are complete.
    """

    tasks: tuple[str, ...]
    series: tuple[SeriesName, ...]
    progress: tuple[Progress, ...]
    job_progress: JobProgress | None
    checkpoints: tuple[CheckpointRecord, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkList:
    """Links to the scheduler's web pages.

    Attributes:
        links: about the job.
        containers: of the task, if one was given; newest first.
    """

    links: tuple[WebLink, ...]
    containers: tuple[TaskContainer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationAnswer:
    """The resolved job: every setting and where it was set. Secrets are masked.

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
    """The files of a job directory."""

    files: tuple[RecordFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAccepted:
    """A change that was accepted and is in progress.

    Attributes:
        asked: the requested action.
        actor: user named in the job's events.
    """

    job: str
    asked: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStacks:
    """The stack traces of a task's program.

    Attributes:
        text: the stack traces.
        how: tools used, comma-separated: `py-spy`, `faulthandler`, `kernel`.
        problem: why the result is incomplete; empty if it is complete.
        name: name of the log in which the stack traces are kept.
    """

    job: str
    task: str
    text: str
    how: str
    problem: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBody:
    """Body of a request that changes something; not needed with an API token.

    Attributes:
        token: the page token, `page_token` of `/api/v1/me`.
    """

    token: str = field(default="", repr=False)
