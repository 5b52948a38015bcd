"""Operations on one job other than its report: events, timeline, goodput, advice, metrics, configuration, files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import TypeVar

from starlette.responses import Response, StreamingResponse

from tony.advice.recommendation import Advice
from tony.config.table.resolved_table import list_recorded_rows
from tony.history.goodput import GoodputLedger
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Metrics
from tony.jobs.event_text import describe
from tony.jobs.job_metrics import find_job_progress, read_reports
from tony.linux.thread_pools import to_thread
from tony.model.codec import to_plain
from tony.model.metric_definitions import Points, series_of
from tony.model.submission_record import JobRecord
from tony.web.api.operation import ApiError, OperationCall, build_download_headers
from tony.web.api.response_types import (
    ConfigurationAnswer,
    EventLine,
    EventList,
    FileList,
    LinkList,
    MetricsIndex,
    SeriesName,
    TimelinePage,
)
from tony.web.job_advice import load_advice

T = TypeVar("T")
#: Maximum number of markers, checkpoints and progress records in a response.
_MAX_MARKS = 10_000


async def get_events(call: OperationCall) -> EventList:
    """Return a page of the job's events."""
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
    return EventList(events=lines, next=lines[-1].seq if lines else max(0, after), over=is_last)


async def get_timeline(call: OperationCall) -> TimelinePage:
    """Return the job's timeline, for a page of its tasks."""
    view, report = await call.find_job()
    made = await view.timeline()
    if made is None:
        raise ApiError(404, "not-known", "The events of this job were not kept, so it has no timeline.")
    task, after, most = call.values["task"], call.values["after"], call.values["most"]
    if task is not None:
        call.find_task(report)
    tasks = made.group_by_task()
    if task is not None:
        tasks = (each for each in tasks if each[0] == str(task))
    elif after is not None:
        for name, _ in tasks:
            if name == str(after):
                break
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


async def get_links(call: OperationCall) -> LinkList:
    """Return links to the scheduler's web pages about the job, and about a task's containers."""
    view, report = await call.find_job()
    held = await view.containers(call.find_task(report)) if call.values["task"] is not None else ()
    return LinkList(links=tuple(await view.links()), containers=tuple(held))


async def get_goodput(call: OperationCall) -> GoodputLedger:
    """Return where the job's time went."""
    view, _ = await call.find_job()
    made = await view.goodput()
    if made is None:
        raise ApiError(404, "not-known", "The events of this job were not kept, so its goodput is unknown.")
    return made


async def get_advice(call: OperationCall) -> Advice:
    """Return the recommendations for the job."""
    view, _ = await call.find_job()
    return await load_advice(view, call.portal_user, call.provider)


# --- metrics ----------------------------------------------------------------------------------------------------------


async def get_metrics(call: OperationCall) -> MetricsIndex:
    """Return which metrics the job has, its progress and its checkpoints."""
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


async def get_points(call: OperationCall) -> Points:
    """Return one series of one task."""
    task, name, since, until, most = (call.values[key] for key in ("task", "series", "since", "until", "most"))
    return await _query_metrics(call, lambda found: found.points(str(task), name, since, until, most))


async def get_role_points(call: OperationCall) -> RolePoints:
    """Return one series over the tasks of a role."""
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


async def get_configuration(call: OperationCall) -> ConfigurationAnswer:
    """Return every setting of the job, and where it was set."""
    view, _ = await call.find_job()
    record = await view.record()
    if record is None:
        raise ApiError(404, "not-known", "The configuration of this job was not kept.")
    return await to_thread(_build_configuration, record)


def _build_configuration(record: JobRecord) -> ConfigurationAnswer:
    return ConfigurationAnswer(
        job=record.job_id,
        user=record.user,
        host=record.host,
        submitted=record.submitted,
        tony_version=record.tony_version,
        settings=list_recorded_rows(record),
    )


async def list_files(call: OperationCall) -> FileList:
    """Return the list of files in the job directory."""
    view, _ = await call.find_job()
    return FileList(files=tuple(await view.files()))


async def get_file(call: OperationCall) -> Response:
    """Return the content of a file."""
    view, _ = await call.find_job()
    path = call.values["path"]
    content: AsyncIterator[bytes] | None = await view.file(path)
    if content is None:
        raise ApiError(
            404,
            "no-file",
            "The job directory has no such file, or it may not be downloaded.",
            "`files` lists the available files.",
        )
    headers = build_download_headers(path.rpartition("/")[2])
    return StreamingResponse(content, media_type="application/octet-stream", headers=headers)
