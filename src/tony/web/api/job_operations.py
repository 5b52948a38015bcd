"""Operations that read: the current user, lists of jobs, and every part of one job but its logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import dropwhile, islice
from typing import TypeVar

from starlette.responses import Response, StreamingResponse

from tony import __version__, clock
from tony.advice.recommendation import Advice
from tony.config.resolved_table import list_recorded_rows
from tony.core.events import EVENTS
from tony.history.event_queries import MAX_LATEST_EVENTS
from tony.history.goodput import GoodputLedger
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Metrics
from tony.jobs import comparison
from tony.jobs.comparison import ComparedJob, Comparison
from tony.jobs.event_text import describe
from tony.jobs.job_metrics import find_job_progress, read_reports
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.failure import FailureClass
from tony.model.job_query import DAMAGED, DEFAULT_PAGE_JOBS, GROUPS, MAX_PAGE_JOBS, JobSort, from_words
from tony.model.job_report import JobReport, TaskReport
from tony.model.metric_definitions import Points, series_of
from tony.model.states import TaskState
from tony.web.api.operation import (
    BYTES,
    ApiError,
    OperationCall,
    Operations,
    Parameter,
    ParameterKind,
    build_download_headers,
    number_parameter,
    text_parameter,
)
from tony.web.api.response_types import (
    ConfigurationAnswer,
    CurrentUser,
    EventLine,
    EventList,
    FileList,
    JobList,
    LinkList,
    MetricsIndex,
    SeriesName,
    TaskList,
    TimelinePage,
)
from tony.web.authorization import list_visible_jobs
from tony.web.job_advice import WEEK, UnusedHours, compute_waste, load_advice

T = TypeVar("T")
#: Maximum number of markers, checkpoints and progress records in a response.
_MAX_MARKS = 10_000
OPERATIONS = Operations()
_TASK = Parameter("task", "a task such as worker:0", ParameterKind.TASK, required=True)
_AFTER_TASK = Parameter("after", "`next` of the previous page", ParameterKind.TASK)
_SERIES = Parameter("series", "name of a series, as listed by `metrics`", required=True)
_SPAN = (
    Parameter("since", "seconds since the job was accepted", ParameterKind.NUMBER),
    Parameter("until", "seconds since the job was accepted", ParameterKind.NUMBER),
    number_parameter("most", "maximum number of points", 500, most=5000),
)


@OPERATIONS.add("/me")
async def me(call: OperationCall) -> CurrentUser:
    """Return the authenticated user."""
    user = call.portal_user
    return CurrentUser(
        user=user.name,
        how=user.how.value,
        admin=user.admin,
        page_token=user.token,
        title=call.provider.title,
        only=call.only,
        version=__version__,
    )


# --- many jobs --------------------------------------------------------------------------------------------------------


@OPERATIONS.add(
    "/jobs",
    text_parameter("text", "words in the id, name, user, tags or root cause"),
    text_parameter("user", "only jobs of this user"),
    text_parameter("state", "a state, `active`, `ended` or `damaged`", *GROUPS, DAMAGED),
    text_parameter("framework", "only jobs of this framework"),
    text_parameter("scheduler", "only jobs of this scheduler"),
    text_parameter("queue", "only jobs of this queue"),
    text_parameter("tag", "only jobs with this tag"),
    text_parameter("failure_class", "only jobs with this class of failure", *(each.value for each in FailureClass)),
    text_parameter("since", "submitted at or after: an ISO 8601 date or time, or seconds since 1970"),
    text_parameter("until", "submitted at or before"),
    text_parameter("sort", "sort key; default `submitted`", *(sort.value for sort in JobSort)),
    Parameter("descending", "largest or newest first", ParameterKind.TRUTH, usual=True),
    text_parameter("after", "`next` of the previous page"),
    number_parameter("most", "jobs per page", DEFAULT_PAGE_JOBS, most=MAX_PAGE_JOBS),
)
async def list_jobs(call: OperationCall) -> JobList:
    """Return a page of the jobs that you may see."""
    try:
        query = from_words(call.request.query_params)
        page = await list_visible_jobs(call.portal_user, call.provider, query)
    except ValueError as error:
        raise ApiError(400, "bad-parameter", f"{error}") from error
    return JobList(jobs=page.heads, next=page.next, total=page.total, facets=page.facets, problems=tuple(page.problems))


@OPERATIONS.add(
    "/waste",
    number_parameter("weeks", "only jobs submitted in this many last weeks", 4, most=520),
    text_parameter("user", "only jobs of this user; empty: all users"),
)
async def get_waste(call: OperationCall) -> UnusedHours:
    """Return the GPU- and GB-hours that finished jobs reserved but did not use, by user and week."""
    since = clock.wall() - call.values["weeks"] * WEEK
    return await compute_waste(call.portal_user, call.provider, since, call.values["user"])


# --- one job ----------------------------------------------------------------------------------------------------------


@OPERATIONS.add("/jobs/{job}", Parameter("tasks", "include the tasks", ParameterKind.TRUTH, usual=True))
async def get_job(call: OperationCall) -> JobReport:
    """Return the status of a job, as printed by `tony status --json`."""
    _, report = await call.find_job()
    return report if call.values["tasks"] else replace(report, tasks=())


@OPERATIONS.add(
    "/jobs/{job}/tasks",
    text_parameter("role", "only tasks of this role"),
    text_parameter("state", "only tasks in this state", *(state.value for state in TaskState)),
    _AFTER_TASK,
    number_parameter("most", "tasks per page", 200, most=10_000),
)
async def list_tasks(call: OperationCall) -> TaskList:
    """Return a page of a job's tasks, in the order of the job file."""
    _, report = await call.find_job()
    role, state, after, most = (call.values[name] for name in ("role", "state", "after", "most"))
    found = [task for task in report.tasks if role in ("", task.role) and state in ("", task.state.value)]
    start = 0
    if after is not None:
        names = [task.task for task in report.tasks]
        if str(after) not in names:
            raise ApiError(400, "bad-parameter", f"after: the job has no task {after}.", "Omit it for the first page.")
        remaining = set(names[names.index(str(after)) + 1 :])
        start = next((number for number, each in enumerate(found) if each.task in remaining), len(found))
    page = found[start : start + most]
    return TaskList(
        tasks=tuple(page), next=page[-1].task if page and start + most < len(found) else "", total=len(found)
    )


@OPERATIONS.add("/jobs/{job}/task", _TASK)
async def get_task(call: OperationCall) -> TaskReport:
    """Return the status of a task."""
    _, report = await call.find_job()
    name = call.find_task(report)
    return next(task for task in report.tasks if task.task == name)


@OPERATIONS.add(
    "/jobs/{job}/events",
    number_parameter(
        "after",
        "`next` of the previous page; negative: start this many events before the last one",
        0,
        least=-MAX_LATEST_EVENTS,
    ),
    Parameter(
        "kind",
        "only events of these kinds (comma-separated values of `event`)",
        ParameterKind.WORDS,
        usual=frozenset(),
        choices=tuple(EVENTS),
    ),
    number_parameter("most", "events per page", 500, most=5000),
)
async def list_events(call: OperationCall) -> EventList:
    """Return a page of a job's events, in order."""
    view, report = await call.find_job()
    after, most = call.values["after"], call.values["most"]
    entries = await view.read_events(after, most, call.values["kind"])
    lines = tuple(
        EventLine(
            seq=entry.seq,
            at=entry.at,
            wall=entry.wall,
            attempt=entry.attempt,
            event=entry.event.kind,
            data=to_plain(entry.event),
            text=describe(entry.event),
        )
        for entry in entries
    )
    is_last = report.state.ended and len(lines) < most
    return EventList(events=lines, next=lines[-1].seq if lines else max(0, after), is_complete=is_last)


@OPERATIONS.add(
    "/jobs/{job}/timeline",
    Parameter("task", "only this task", ParameterKind.TASK),
    _AFTER_TASK,
    number_parameter("most", "tasks per page", 1000, most=10_000),
)
async def get_timeline(call: OperationCall) -> TimelinePage:
    """Return the timeline of a job, for a page of its tasks."""
    view, report = await call.find_job()
    made = await view.timeline()
    if made is None:
        raise ApiError(404, "not-known", "The events of this job were not kept, so it has no timeline.")
    task, after, most = call.values["task"], call.values["after"], call.values["most"]
    tasks = made.group_by_task()
    if task is not None:
        name = call.find_task(report)
        tasks = (each for each in tasks if each[0] == name)
    elif after is not None:
        tasks = islice(dropwhile(lambda each: each[0] != str(after), tasks), 1, None)
    chosen = [*islice(tasks, most + 1)]
    return TimelinePage(
        job=made.job,
        accepted=made.accepted,
        until=made.until,
        began=made.first_start,
        ended=made.ended,
        sessions=made.sessions,
        marks=made.marks[-_MAX_MARKS:],
        roles=made.roles,
        queued=made.queued,
        spans=tuple(span for _, spans in chosen[:most] for span in spans),
        next=chosen[most - 1][0] if len(chosen) > most else "",
        doubt=made.doubt,
    )


@OPERATIONS.add("/jobs/{job}/links", Parameter("task", "include this task's containers", ParameterKind.TASK))
async def get_links(call: OperationCall) -> LinkList:
    """Return links to the scheduler's web pages about a job, and about the containers of a task."""
    view, report = await call.find_job()
    held = await view.containers(call.find_task(report)) if call.values["task"] is not None else ()
    return LinkList(links=tuple(await view.links()), containers=tuple(held))


@OPERATIONS.add("/jobs/{job}/goodput")
async def get_goodput(call: OperationCall) -> GoodputLedger:
    """Return where a job's time went: each task-second is in one bucket."""
    view, _ = await call.find_job()
    made = await view.goodput()
    if made is None:
        raise ApiError(404, "not-known", "The events of this job were not kept, so its goodput is unknown.")
    return made


@OPERATIONS.add("/jobs/{job}/advice")
async def get_advice(call: OperationCall) -> Advice:
    """Return recommendations to make a job cheaper or safer, from its latest runs, with changes to the job file."""
    view, _ = await call.find_job()
    return await load_advice(view, call.portal_user, call.provider)


@OPERATIONS.add("/jobs/{job}/compare", Parameter("with", "the other job's id", required=True))
async def compare_jobs(call: OperationCall) -> Comparison:
    """Compare a job with another one: results, different settings, where the time went, metrics."""
    found = await comparison.compare_jobs((await call.find_job())[0], (await call.find_job("with"))[0])
    return replace(found, a=_drop_tasks(found.a), b=_drop_tasks(found.b))


def _drop_tasks(side: ComparedJob) -> ComparedJob:
    return replace(side, report=replace(side.report, tasks=()))


# --- metrics ----------------------------------------------------------------------------------------------------------


@OPERATIONS.add("/jobs/{job}/metrics")
async def get_metrics(call: OperationCall) -> MetricsIndex:
    """Return which metrics a job has, its progress and its checkpoints."""
    _, report = await call.find_job()

    def build_index(found: Metrics) -> MetricsIndex:
        known = [(name, series_of(name)) for name in found.series()]
        return MetricsIndex(
            tasks=tuple(found.tasks()),
            series=tuple(
                SeriesName(name=name, unit=series.unit.value, what=series.what, of_host=series.of_host)
                for name, series in known
                if series is not None
            ),
            progress=tuple(found.progress())[:_MAX_MARKS],
            job_progress=find_job_progress(read_reports(found), report),
            checkpoints=tuple(found.checkpoints())[:_MAX_MARKS],
            problem=found.problem,
        )

    return await _query_metrics(call, build_index)


@OPERATIONS.add("/jobs/{job}/metrics/points", _TASK, _SERIES, *_SPAN)
async def get_points(call: OperationCall) -> Points:
    """Return one series of one task: minimum, mean and maximum per interval."""
    task, name, since, until, most = (call.values[key] for key in ("task", "series", "since", "until", "most"))
    return await _query_metrics(call, lambda found: found.points(str(task), name, since, until, most))


@OPERATIONS.add("/jobs/{job}/metrics/role", Parameter("role", "the role", required=True), _SERIES, *_SPAN)
async def get_role_points(call: OperationCall) -> RolePoints:
    """Return one series over all tasks of a role: median, minimum and maximum, and the tasks with these."""
    role, name, since, until, most = (call.values[key] for key in ("role", "series", "since", "until", "most"))
    return await _query_metrics(call, lambda found: found.read_role_series(role, name, since, until, most))


async def _query_metrics(call: OperationCall, query: Callable[[Metrics], T]) -> T:
    view, _ = await call.find_job()
    found = await view.query_metrics(query)
    if found is None:
        raise ApiError(
            404,
            "not-known",
            "This job has no metrics.",
            "`metrics_interval` in the job file sets the sampling interval.",
        )
    return found


# --- configuration and files ------------------------------------------------------------------------------------------


@OPERATIONS.add("/jobs/{job}/configuration")
async def get_configuration(call: OperationCall) -> ConfigurationAnswer:
    """Return every setting of a job, and where it was set; secrets are masked."""
    view, _ = await call.find_job()
    record = await view.record()
    if record is None:
        raise ApiError(404, "not-known", "The configuration of this job was not kept.")
    return ConfigurationAnswer(
        job=record.job_id,
        user=record.user,
        host=record.host,
        submitted=record.submitted,
        tony_version=record.tony_version,
        settings=await to_thread(list_recorded_rows, record),
    )


@OPERATIONS.add("/jobs/{job}/files")
async def list_files(call: OperationCall) -> FileList:
    """Return the list of files in a job's directory."""
    view, _ = await call.find_job()
    return FileList(files=tuple(await view.files()))


@OPERATIONS.add("/jobs/{job}/file", Parameter("path", "path of a file, as listed by `files`", required=True))
async def get_file(call: OperationCall) -> Response:
    """Return the content of a file."""
    view, _ = await call.find_job()
    path = call.values["path"]
    content = await view.file(path)
    if content is None:
        raise ApiError(
            404,
            "no-file",
            "The job directory has no such file, or it may not be downloaded.",
            "`files` lists the available files.",
        )
    return StreamingResponse(content, media_type=BYTES, headers=build_download_headers(path.rpartition("/")[2]))
