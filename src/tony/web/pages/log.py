"""What a task printed, a piece at a time: by bytes, so that a file of any length opens at once, and anywhere in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

from markupsafe import Markup
from starlette.responses import JSONResponse, Response, StreamingResponse

from tony import clock
from tony.dataclass import dataclass, replace
from tony.errors import TonyError
from tony.model.job_report import JobReport
from tony.web import ansi_html
from tony.web.job_source import JobView, LogBytes, LogFileInfo, Logs, LogSearchResult
from tony.web.pages.files import kept_as
from tony.web.pages.job_layout import frame
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import render

#: Bytes of one page, of what a follower gets at once, and of what is shown before a line that was searched for.
_PAGE, _PORTION, _BEFORE = 64 << 10, 256 << 10, 2048
#: Bytes in which the beginning of a line is looked for.
_LINE = 8192
#: Seconds between two looks at a log that is followed, at first and at most; of silence, after which something is said;
#: for which one connection goes on.
_QUICK, _SLOW, _SILENCE, _LIFE = 0.2, 1.5, 15.0, 300.0
_STREAMS = {"out": "Standard output", "err": "Standard error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A piece of a log, from `start` to `end`; `hit` is the line that was searched for."""

    lines: tuple[Markup, ...]
    start: int
    end: int
    size: int
    hit: int | None = None


async def page(asked: PageRequest) -> Response:
    """The page."""
    view, report = await asked.job()
    task = asked.task(report)
    stream = _stream(asked)
    logs = view.logs(str(task))
    files = [file for file in await logs.files() if file.stream == stream]
    file = _named(files, asked.word("name"))
    values = await frame(asked, view, report, "")
    values |= {
        "title": f"{_STREAMS[stream]} of {task}",
        "task": str(task),
        "stream": stream,
        "streams": _STREAMS,
        "files": files,
        "file": file,
        "missing": await logs.missing(),
        "find": asked.word("find"),
        "shown": None,
        "found": None,
        "flows": asked.request.app.state.flows,
    }
    if file is not None:
        values |= await _content(asked, logs, file)
        values["running"] = _grows(report, files, file)
    return render("log.html", asked, values)


async def more(asked: PageRequest) -> Response:
    """What was printed since, for a page that asks again and again."""
    view, report = await asked.job()
    task, stream = asked.task(report), _stream(asked)
    place = _Place(name=asked.word("name"), at=asked.number("at", 0), style=asked.word("style"))
    return JSONResponse(await _lines_since(view.logs(str(task)), stream, place, ended=report.state.ended))


async def follow(asked: PageRequest) -> Response:
    """The same as server-sent events, as soon as there is something; ends after a while: then one asks again."""
    if not asked.request.app.state.flows:
        raise NotAnswered(404, "Nothing is told by itself here", "Ask again and again, with `more` for `follow`.")
    view, report = await asked.job()
    task, stream = asked.task(report), _stream(asked)
    place = _Place(name=asked.word("name"), at=asked.number("at", 0), style=asked.word("style"))
    events = _events(view, view.logs(str(task)), stream, place)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Up to where a follower has seen a log, and how its next line begins."""

    name: str
    at: int
    style: str


async def _lines_since(logs: Logs, stream: str, place: _Place, *, ended: bool) -> dict[str, object]:
    """Whole lines, and apart from them the one that has no end yet."""
    files = [file for file in await logs.files() if file.stream == stream]
    file = _named(files, place.name)
    if file is None:
        return {"at": 0, "html": "", "rest": "", "style": "", "size": 0, "over": ended}
    piece = await _piece(logs, file.name, min(place.at, file.size), _PORTION)
    whole = piece.data.rfind(b"\n") + 1 or (len(piece.data) if len(piece.data) >= _PORTION else 0)
    lines, style = ansi_html.lines(piece.data[:whole], ansi_html.TextStyle.parse(place.style))
    rest, _ = ansi_html.lines(piece.data[whole:], style)
    grows = not ended and file is files[-1]
    return {
        "at": piece.offset + whole,
        "html": "".join(f"{html}\n" for _, html in lines),
        "rest": "".join(html for _, html in rest),
        "style": str(style),
        "size": piece.size,
        "over": not grows and piece.offset + len(piece.data) >= piece.size,
    }


async def _events(view: JobView, logs: Logs, stream: str, place: _Place) -> AsyncIterator[str]:
    """One event at once, and for each change; a comment now and then, so that a connection that is gone is noticed."""
    began = told = clock.monotonic()
    shown, pause, ended, first = "", _QUICK, False, True
    while clock.monotonic() - began < _LIFE:
        try:
            # What was printed before the end was known is all there is.
            ended = ended or not view.live
            found = await _lines_since(logs, stream, place, ended=ended)
        except (NotAnswered, LookupError, TonyError):
            return
        rest = f"{found['rest']}"
        if first or found["html"] or rest != shown or found["over"]:
            first = False
            yield f"data: {json.dumps(found)}\n\n"
            place = _Place(name=place.name, at=int(f"{found['at']}"), style=f"{found['style']}")
            shown, pause, told = rest, _QUICK, clock.monotonic()
            if found["over"]:
                return
        elif clock.monotonic() - told > _SILENCE:
            yield ":\n\n"
            told = clock.monotonic()
        await asyncio.sleep(pause)
        pause = min(_SLOW, 1.3 * pause)


async def download(asked: PageRequest) -> Response:
    """All of it, as it was printed."""
    view, report = await asked.job()
    task = asked.task(report)
    stream = _stream(asked)
    logs = view.logs(str(task))
    file = _named([each for each in await logs.files() if each.stream == stream], asked.word("name"))
    if file is None:
        raise NotAnswered(404, "There is no such log", "The task's page lists those that there are.")
    headers = kept_as(f"{report.job}.{file.name}.log")
    return StreamingResponse(logs.all_of(file.name), media_type="application/octet-stream", headers=headers)


def _stream(asked: PageRequest) -> str:
    stream: str = asked.request.path_params["stream"]
    if stream not in _STREAMS:
        raise NotAnswered(404, "There is no such log", "A task has two: out and err.")
    return stream


def _named(files: Sequence[LogFileInfo], name: str) -> LogFileInfo | None:
    """The file of that name, or the latest one.

    Raises:
        NotAnswered: there is none of that name.
    """
    if not name:
        return files[-1] if files else None
    found = next((file for file in files if file.name == name), None)
    if found is None:
        raise NotAnswered(
            404, "There is no such log", "It may have been removed; the task's page lists those there are."
        )
    return found


def _grows(report: JobReport, files: Sequence[LogFileInfo], file: LogFileInfo) -> bool:
    """Whether its program may print more: nothing has begun after it, and the job has not ended."""
    return not report.state.ended and file is files[-1]


async def _content(asked: PageRequest, logs: Logs, file: LogFileInfo) -> dict[str, object]:
    """The piece that the address asks for: by a text, by a share of the whole, by an offset; else the end."""
    text = asked.word("find")
    at = asked.number("at", -1, -1)
    if text:
        backwards = asked.word("way") == "up"
        start = at if at >= 0 else (file.size if backwards else 0)
        found = await logs.find(file.name, text, start, backwards=backwards)
        shown = await _around(logs, file, found, start)
        return {"shown": shown, "found": found, "backwards": backwards}
    if asked.word("percent"):
        at = file.size * asked.number("percent", 100, 0, 100) // 100
        at = min(at, max(0, file.size - 1)) if at < file.size else -1
    if at < 0:
        return {"shown": await _show(logs, file.name, max(0, file.size - _PAGE))}
    return {"shown": await _show(logs, file.name, at)}


async def _around(logs: Logs, file: LogFileInfo, found: LogSearchResult, start: int) -> Shown:
    if found.line is None:
        return await _show(logs, file.name, min(start, max(0, file.size - _PAGE)))
    shown = await _show(logs, file.name, max(0, found.line - _BEFORE))
    before = (await logs.read(file.name, shown.start, found.line - shown.start)).data
    return replace(shown, hit=before.count(b"\n"))


async def _show(logs: Logs, name: str, at: int) -> Shown:
    piece = await _piece(logs, name, at, _PAGE)
    data = piece.data
    if piece.offset + len(data) < piece.size:  # not cut within a line, unless it is a long one
        data = data[: data.rfind(b"\n") + 1] or data
    lines, _ = ansi_html.lines(data)
    return Shown(
        lines=tuple(html for _, html in lines), start=piece.offset, end=piece.offset + len(data), size=piece.size
    )


async def _piece(logs: Logs, name: str, at: int, most: int) -> LogBytes:
    """From the beginning of the line on that holds `at`, if that is near."""
    start = max(0, at - _LINE)
    try:
        before = await logs.read(name, start, at - start) if at > start else None
        begin = at
        if before is not None and not before.data.endswith(b"\n"):
            newline = before.data.rfind(b"\n")
            begin = start + newline + 1 if newline >= 0 else (start if start == 0 else at)
        # As many more as it begins before: else the end of a log would never be reached.
        return await logs.read(name, begin, most + at - begin)
    except LookupError:
        raise NotAnswered(404, "There is no such log", "It may have been removed.") from None
