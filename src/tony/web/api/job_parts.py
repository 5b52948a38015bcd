"""What there is of one job besides its report."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import TypeVar

from starlette.responses import Response, StreamingResponse

from tony.advice.recommendation import Advice
from tony.config.load import Resolved
from tony.config.resolved_table import resolved_rows
from tony.config.secret_names import redact
from tony.errors import RecordError
from tony.history.goodput import GoodputLedger
from tony.history.metrics_reader import Metrics, RolePoints
from tony.jobs.event_text import describe
from tony.jobs.progress import find_job_progress, read_reports
from tony.linux.threads import to_thread
from tony.model.codec import to_plain
from tony.model.job_record import JobRecord
from tony.model.metrics import series_of
from tony.protocol.messages import Points
from tony.web.api.operation import ApiError, OperationCall
from tony.web.api.responses import (
    Configuration,
    EventLine,
    EventList,
    FileList,
    LinkList,
    MetricsIndex,
    SeriesName,
    TimelinePage,
)
from tony.web.job_advice import advice_about
from tony.web.pages.files import kept_as

T = TypeVar("T")
#: Marks, checkpoints and tries that are listed.
_MOST_MARKS = 10_000


async def events(call: OperationCall) -> EventList:
    """What happened to it."""
    view, report = await call.job()
    after, most = call.values["after"], call.values["most"]
    entries = await view.events(after, most, call.values["kind"])
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
    over = report.state.ended and len(lines) < most
    return EventList(events=lines, next=lines[-1].seq if lines else max(0, after), over=over)


async def timeline(call: OperationCall) -> TimelinePage:
    """Its life as spans and marks."""
    view, report = await call.job()
    made = await view.timeline()
    if made is None:
        raise ApiError(404, "not-known", "No events of this job were kept, so nobody knows when it did what.")
    task, after, most = call.values["task"], call.values["after"], call.values["most"]
    if task is not None:
        call.task(report)
    tasks = made.by_task()
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
        began=made.began,
        ended=made.ended,
        sessions=made.sessions,
        marks=made.marks[-_MOST_MARKS:],
        roles=made.roles,
        queued=made.queued,
        spans=tuple(span for _, spans in chosen[:most] for span in spans),
        next=chosen[most - 1][0] if len(chosen) > most else "",
        doubt=made.doubt,
    )


async def links(call: OperationCall) -> LinkList:
    """Where its scheduler's own pages show it."""
    view, report = await call.job()
    held = await view.containers(call.task(report)) if call.values["task"] is not None else ()
    return LinkList(links=tuple(await view.links()), containers=tuple(held))


async def goodput(call: OperationCall) -> GoodputLedger:
    """Where its time went."""
    view, _ = await call.job()
    made = await view.goodput()
    if made is None:
        raise ApiError(404, "not-known", "No events of this job were kept, so nobody knows where its time went.")
    return made


async def advice(call: OperationCall) -> Advice:
    """What could be better about it."""
    view, _ = await call.job()
    return await advice_about(view, call.visitor, call.source)


# --- metrics ----------------------------------------------------------------------------------------------------------


async def metrics(call: OperationCall) -> MetricsIndex:
    """What was measured of it."""

    _, report = await call.job()

    def index(found: Metrics) -> MetricsIndex:
        known = [(name, series_of(name)) for name in found.series()]
        return MetricsIndex(
            tasks=tuple(found.tasks()),
            series=tuple(
                SeriesName(name=name, unit=series.unit.value, what=series.what, of_host=series.of_host)
                for name, series in known
                if series is not None
            ),
            progress=tuple(found.progress())[:_MOST_MARKS],
            job_progress=find_job_progress(read_reports(found), report),
            checkpoints=tuple(found.checkpoints())[:_MOST_MARKS],
            problem=found.problem,
        )

    return await _measured(call, index)


async def points(call: OperationCall) -> Points:
    """One series of one task."""
    task, name, since, until, most = (call.values[key] for key in ("task", "series", "since", "until", "most"))
    return await _measured(call, lambda found: found.points(str(task), name, since, until, most))


async def role_points(call: OperationCall) -> RolePoints:
    """One series of a role's tasks."""
    role, name, since, until, most = (call.values[key] for key in ("role", "series", "since", "until", "most"))
    return await _measured(call, lambda found: found.of_role(role, name, since, until, most))


async def _measured(call: OperationCall, ask: Callable[[Metrics], T]) -> T:
    view, _ = await call.job()
    found = await view.metrics()
    if found is None:
        raise ApiError(
            404, "not-known", "Nothing was measured of this job.", "`metrics_interval` in its job file says how often."
        )

    def work() -> T:
        with found:
            return ask(found)

    return await to_thread(work)


# --- the record -------------------------------------------------------------------------------------------------------


async def configuration(call: OperationCall) -> Configuration:
    """Every value of it, and where that was set."""
    view, _ = await call.job()
    record = await view.record()
    if record is None:
        raise ApiError(404, "not-known", "The configuration of this job was not kept.")
    return await to_thread(_configuration, record)


def _configuration(record: JobRecord) -> Configuration:
    try:
        rows = resolved_rows(Resolved(spec=redact(record.spec), sources=record.sources))
    except (ValueError, LookupError) as error:
        raise RecordError(f"the configuration of {record.job_id} makes no sense: {error}") from error
    return Configuration(
        job=record.job_id,
        user=record.user,
        host=record.host,
        submitted=record.submitted,
        tony_version=record.tony_version,
        settings=rows,
    )


async def files(call: OperationCall) -> FileList:
    """The files of its record."""
    view, _ = await call.job()
    return FileList(files=tuple(await view.files()))


async def file(call: OperationCall) -> Response:
    """One of them."""
    view, _ = await call.job()
    path = call.values["path"]
    content: AsyncIterator[bytes] | None = await view.file(path)
    if content is None:
        raise ApiError(
            404,
            "no-file",
            "The record has no such file, or it may not be shown.",
            "`files` lists what there is.",
        )
    headers = kept_as(path.rpartition("/")[2])
    return StreamingResponse(content, media_type="application/octet-stream", headers=headers)
