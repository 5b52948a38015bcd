"""Operations that read the output of tasks."""

from __future__ import annotations

import codecs

from starlette.responses import Response, StreamingResponse

from tony.jobs.directory.task_logs import LOG_PIECE, LogBytes, LogSearchResult, TaskLogs
from tony.model.log_name import LogName
from tony.web.api.operation import (
    BYTES,
    ApiError,
    OperationCall,
    Operations,
    Parameter,
    ParameterKind,
    build_download_headers,
    number_parameter,
)
from tony.web.api.response_types import LogChunk, LogList

OPERATIONS = Operations()
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


@OPERATIONS.add(
    "/jobs/{job}/logs/{name}/find",
    Parameter("text", "the text; ASCII case is ignored", required=True),
    number_parameter("offset", "where to start", 0, least=0),
    Parameter("backwards", "search before `offset`", ParameterKind.TRUTH, usual=False),
)
async def find_in_log(call: OperationCall) -> LogSearchResult:
    """Find the line of a log that contains a text. Searches a part of the log; continue at `until`."""
    name, logs = await _find_log(call)
    try:
        return await logs.find(name, call.values["text"], call.values["offset"], backwards=call.values["backwards"])
    except LookupError:
        raise _build_missing_error(name) from None


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
