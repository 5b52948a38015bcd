"""What tasks printed, by offsets."""

from __future__ import annotations

import codecs

from starlette.responses import Response, StreamingResponse

from tony.jobs.log_names import LogName
from tony.web.api.operation import ApiError, OperationCall
from tony.web.api.responses import LogList, LogPiece
from tony.web.job_source import Logs, LogSearchResult
from tony.web.pages.files import kept_as


async def logs(call: OperationCall) -> LogList:
    """What there is of one task."""
    view, report = await call.job()
    found = view.logs(call.task(report))
    return LogList(logs=tuple(await found.files()), missing=await found.missing())


async def piece(call: OperationCall) -> LogPiece:
    """A piece of one."""
    name, read = await _named(call)
    try:
        found = await read.read(name, call.values["offset"], call.values["most"])
    except LookupError:
        raise _missing(name) from None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character that is cut off at the end comes with the next piece, unless there is nothing else.
    text = decoder.decode(found.data)
    cut = len(decoder.getstate()[0])
    if cut == len(found.data) or found.offset + len(found.data) >= found.size:
        text, cut = text + decoder.decode(b"", final=True), 0
    return LogPiece(
        name=name, offset=found.offset, next=found.offset + len(found.data) - cut, size=found.size, text=text
    )


async def raw(call: OperationCall) -> Response:
    """The bytes of a piece of one."""
    name, read = await _named(call)
    try:
        found = await read.read(name, call.values["offset"], call.values["most"])
    except LookupError:
        raise _missing(name) from None
    return Response(found.data, media_type="application/octet-stream", headers=kept_as(name))


async def find(call: OperationCall) -> LogSearchResult:
    """Where something stands in one."""
    name, read = await _named(call)
    try:
        return await read.find(name, call.values["text"], call.values["offset"], backwards=call.values["backwards"])
    except LookupError:
        raise _missing(name) from None


async def whole(call: OperationCall) -> Response:
    """All of one."""
    name, read = await _named(call)
    if not any(file.name == name for file in await read.files()):
        raise _missing(name)
    headers = kept_as(f"{call.values['job']}.{name}.log")
    return StreamingResponse(read.all_of(name), media_type="application/octet-stream", headers=headers)


async def _named(call: OperationCall) -> tuple[str, Logs]:
    view, report = await call.job()
    name = call.values["name"]
    known = LogName.parse(name)
    if known is None or known.file != name or not any(each.task == known.task for each in report.tasks):
        raise _missing(name)
    return name, view.logs(known.task)


def _missing(name: str) -> ApiError:
    return ApiError(404, "no-log", f"There is no log {name[:80]!r}.", "`logs?task=worker:0` lists those of a task.")
