"""Operations that read the output of tasks."""

from __future__ import annotations

import codecs

from starlette.responses import Response, StreamingResponse

from tony.errors import UserError
from tony.jobs.directory.merged_logs import MergedLine
from tony.jobs.directory.open_log import LOG_PIECE
from tony.jobs.directory.task_logs import LogBytes, TaskLogs
from tony.model.log_name import STREAMS, LogName
from tony.web.api.log_response_types import LogChunk, LogLineFacts, LogLines, LogList, LogTimes
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
from tony.web.log_query import ALL_SESSIONS, MAX_SESSION, LogQuery

OPERATIONS = Operations()
_MAX_LINES = 5000
_MOST = number_parameter("most", "maximum number of bytes", 64 << 10, most=LOG_PIECE)


@OPERATIONS.add("/jobs/{job}/logs", Parameter("task", "a task such as worker:0", ParameterKind.TASK, required=True))
async def list_logs(call: OperationCall) -> LogList:
    """Return the logs of a task: one for each stream of each task attempt."""
    view, report = await call.find_job()
    found = view.task_logs(call.find_task(report))
    return LogList(logs=tuple(await found.files()), missing=await found.explain_missing())


@OPERATIONS.add(
    "/jobs/{job}/logs/{name}",
    Parameter("offset", "of the first byte; negative: relative to the end", ParameterKind.INTEGER, usual=0),
    _MOST,
)
async def read_log(call: OperationCall) -> LogChunk:
    """Return a part of a log as text. Continue at `next`."""
    name, found = await _read(call)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character that is cut off at the end belongs to the next part, unless this part has nothing else.
    text = decoder.decode(found.data)
    cut = len(decoder.getstate()[0])
    if cut == len(found.data) or found.offset + len(found.data) >= found.size:
        text, cut = text + decoder.decode(b"", final=True), 0
    return LogChunk(
        name=name, offset=found.offset, next=found.offset + len(found.data) - cut, size=found.size, text=text
    )


@OPERATIONS.add("/jobs/{job}/logs/{name}/bytes", number_parameter("offset", "of the first byte", 0, least=0), _MOST)
async def read_log_bytes(call: OperationCall) -> Response:
    """Return a part of a log as bytes, with secrets masked; empty after the end."""
    name, found = await _read(call)
    return Response(found.data, media_type=BYTES, headers=build_download_headers(name))


@OPERATIONS.add("/jobs/{job}/logs/{name}/times", number_parameter("offset", "of the first byte", 0, least=0), _MOST)
async def read_log_times(call: OperationCall) -> LogTimes:
    """Return when a part of a log was printed."""
    name, logs = await _find_log(call)
    try:
        times = await logs.read_times(name, call.values["offset"], call.values["most"])
    except LookupError:
        raise _build_missing_error(name) from None
    return LogTimes(name=name, times=tuple(times))


@OPERATIONS.add(
    "/jobs/{job}/lines",
    text_parameter("task", "a task such as worker:0, or a role; all by default"),
    text_parameter("stream", "one of them; both by default", "", *STREAMS),
    number_parameter("session", "0: of each task the newest one", 0, least=0, most=MAX_SESSION),
    Parameter("all_sessions", "instead of one session", ParameterKind.TRUTH, usual=False),
    text_parameter("text", "only lines that contain it; ASCII case is ignored"),
    text_parameter("since", "begin with the first line printed since then: 10m (ago), or an ISO 8601 time"),
    text_parameter("before", "a position: lines before it"),
    text_parameter("after", "a position: lines after it; `start`: the first lines"),
    number_parameter("most", "maximum number of lines", 500, most=_MAX_LINES),
)
async def read_lines(call: OperationCall) -> LogLines:
    """Return lines of a job's logs in the order of their times: the last ones, or those at a position."""
    view, report = await call.find_job()
    words = {name: call.values[name] for name in ("task", "stream", "text", "since", "before", "after")}
    session = ALL_SESSIONS if call.values["all_sessions"] else str(call.values["session"] or "")
    try:
        query = LogQuery.parse({**words, "session": session}, report)
    except ValueError as error:
        raise ApiError(400, "bad-parameter", str(error)) from None
    except UserError as error:
        raise ApiError(404, "no-task", str(error), "The job's report lists its tasks.") from None
    logs = view.job_logs()
    missing = await logs.fetch_output(query.find_tasks(report))
    found = await logs.read_lines(
        await logs.list_names(),
        query.selection,
        text=query.text,
        start=query.start,
        backwards=query.is_backwards,
        most=call.values["most"],
    )
    return LogLines(
        lines=tuple(map(_build_line, found.lines)),
        before=str(found.earlier or ""),
        after=str(found.later or (found.lines[-1].end if found.lines else query.start or "")),
        is_cut=found.is_cut,
        is_complete=found.later is None and report.state.ended,
        missing=missing,
    )


def _build_line(line: MergedLine) -> LogLineFacts:
    name = line.start.name
    return LogLineFacts(
        task=name.task,
        session=name.session,
        try_=name.try_,
        stream=name.stream,
        time=line.at,
        line=line.data.removesuffix(b"\r").decode("utf-8", errors="replace"),
        position=str(line.start),
    )


@OPERATIONS.add("/jobs/{job}/logs/{name}/download")
async def download_log(call: OperationCall) -> Response:
    """Return a whole log."""
    name, logs = await _find_log(call)
    if not any(file.name == name for file in await logs.files()):
        raise _build_missing_error(name)
    headers = build_download_headers(f"{call.values['job']}.{name}.log")
    return StreamingResponse(logs.read_all(name), media_type=BYTES, headers=headers)


async def _read(call: OperationCall) -> tuple[str, LogBytes]:
    """Return the name of the requested log, and the requested part."""
    name, logs = await _find_log(call)
    try:
        return name, await logs.read(name, call.values["offset"], call.values["most"])
    except LookupError:
        raise _build_missing_error(name) from None


async def _find_log(call: OperationCall) -> tuple[str, TaskLogs]:
    """Return the name of the requested log, and the logs of its task.

    Raises:
        ApiError: the name is not that of a log of a task of the job.
    """
    view, report = await call.find_job()
    name = call.values["name"]
    known = LogName.parse(name)
    if known is None or known.file != name or not any(task.task == known.task for task in report.tasks):
        raise _build_missing_error(name)
    return name, view.task_logs(known.task)


def _build_missing_error(name: str) -> ApiError:
    return ApiError(404, "no-log", f"There is no log {name[:80]!r}.", "`logs?task=worker:0` lists a task's logs.")
