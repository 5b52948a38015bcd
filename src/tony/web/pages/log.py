"""The output of a task, in chunks by byte offset, so that a file of any size opens quickly at any position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup
from starlette.responses import JSONResponse, Response

from tony.jobs.directory.task_logs import LogBytes, LogSearchResult, TaskLogs
from tony.jobs.log_files import LogFileInfo
from tony.model.job_report import JobReport
from tony.web import ansi_html
from tony.web.pages.job_layout import build_frame
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import render

#: Bytes per page.
_PAGE_BYTES = 64 << 10
#: Bytes per update of a followed log.
_UPDATE_BYTES = 256 << 10
#: Bytes shown before a line that was found.
_CONTEXT_BYTES = 2048
#: Bytes that are searched backwards for the start of a line.
_LINE_START_BYTES = 8192
_STREAMS = {"out": "Standard output", "err": "Standard error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A part of a log, from byte `start` to `end`; `hit` is the index of the line that was found."""

    lines: tuple[Markup, ...]
    start: int
    end: int
    size: int
    hit: int | None = None


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    task = page_request.find_task(report)
    stream = _stream(page_request)
    logs = view.task_logs(str(task))
    files = [file for file in await logs.files() if file.stream == stream]
    file = _find_file(files, page_request.get_word("name"))
    values = await build_frame(page_request, view, report, "")
    values |= {
        "title": f"{_STREAMS[stream]} of {task}",
        "task": str(task),
        "stream": stream,
        "streams": _STREAMS,
        "files": files,
        "file": file,
        "missing": await logs.explain_missing(),
        "find": page_request.get_word("find"),
        "shown": None,
        "found": None,
    }
    if file is not None:
        values |= await _read_content(page_request, logs, file)
        values["running"] = _can_grow(report, files, file)
    return render("log.html", page_request, values)


async def serve_more(page_request: PageRequest) -> Response:
    """Return the complete lines after a position as JSON, and separately the line that is not complete yet.

    If `behind` is true, the next lines are there already.
    """
    view, report = await page_request.find_job()
    task, stream = page_request.find_task(report), _stream(page_request)
    logs = view.task_logs(str(task))
    files = [file for file in await logs.files() if file.stream == stream]
    file = _find_file(files, page_request.get_word("name"))
    if file is None:
        return JSONResponse({"at": 0, "html": "", "rest": "", "style": "", "behind": False, "over": report.state.ended})
    start = min(page_request.get_number("at", 0), file.size)
    piece = await _read_lines(logs, file.name, start, _UPDATE_BYTES)
    whole = piece.data.rfind(b"\n") + 1 or (len(piece.data) if len(piece.data) >= _UPDATE_BYTES else 0)
    style = ansi_html.TextStyle.parse(page_request.get_word("style"))
    lines, style = ansi_html.render_lines(piece.data[:whole], style)
    rest, _ = ansi_html.render_lines(piece.data[whole:], style)
    at_end = piece.offset + len(piece.data) >= piece.size
    return JSONResponse(
        {
            "at": piece.offset + whole,
            "html": "".join(f"{html}\n" for _, html in lines),
            "rest": "".join(html for _, html in rest),
            "style": str(style),
            "behind": not at_end and piece.offset + whole > start,
            "over": at_end and not _can_grow(report, files, file),
        }
    )


def _stream(page_request: PageRequest) -> str:
    stream: str = page_request.request.path_params["stream"]
    if stream not in _STREAMS:
        raise PageError(404, "Log not found", "A task has two logs: out and err.")
    return stream


def _find_file(files: Sequence[LogFileInfo], name: str) -> LogFileInfo | None:
    """Return the file of that name; without a name, the latest one, if any.

    Raises:
        PageError: there is no file of that name.
    """
    if not name:
        return files[-1] if files else None
    found = next((file for file in files if file.name == name), None)
    if found is None:
        raise PageError(404, "Log not found", "It may have been removed; the task's page lists the available logs.")
    return found


def _can_grow(report: JobReport, files: Sequence[LogFileInfo], file: LogFileInfo) -> bool:
    """Return True if more output is possible: the job has not ended, and no later task attempt has started."""
    return not report.state.ended and file is files[-1]


async def _read_content(page_request: PageRequest, logs: TaskLogs, file: LogFileInfo) -> dict[str, object]:
    """Return the part of the log that the address selects by text, percentage or offset; by default the end."""
    text = page_request.get_word("find")
    at = page_request.get_number("at", -1, -1)
    if text:
        backwards = page_request.get_word("way") == "up"
        start = at if at >= 0 else (file.size if backwards else 0)
        found = await logs.find(file.name, text, start, backwards=backwards)
        shown = await _show_match(logs, file, found, start)
        return {"shown": shown, "found": found, "backwards": backwards}
    if page_request.get_word("percent"):
        at = file.size * page_request.get_number("percent", 100, 0, 100) // 100
        at = min(at, max(0, file.size - 1)) if at < file.size else -1
    if at < 0:
        return {"shown": await _show(logs, file.name, max(0, file.size - _PAGE_BYTES))}
    return {"shown": await _show(logs, file.name, at)}


async def _show_match(logs: TaskLogs, file: LogFileInfo, found: LogSearchResult, start: int) -> Shown:
    if found.line is None:
        return await _show(logs, file.name, min(start, max(0, file.size - _PAGE_BYTES)))
    shown = await _show(logs, file.name, max(0, found.line - _CONTEXT_BYTES))
    before = (await logs.read(file.name, shown.start, found.line - shown.start)).data
    return replace(shown, hit=before.count(b"\n"))


async def _show(logs: TaskLogs, name: str, at: int) -> Shown:
    piece = await _read_lines(logs, name, at, _PAGE_BYTES)
    data = piece.data
    if piece.offset + len(data) < piece.size:  # cut at the end of a line, if there is one
        data = data[: data.rfind(b"\n") + 1] or data
    lines, _ = ansi_html.render_lines(data)
    return Shown(
        lines=tuple(html for _, html in lines), start=piece.offset, end=piece.offset + len(data), size=piece.size
    )


async def _read_lines(logs: TaskLogs, name: str, at: int, most: int) -> LogBytes:
    """Read from the start of the line that contains `at`, if it is near, else from `at`."""
    start = max(0, at - _LINE_START_BYTES)
    try:
        before = await logs.read(name, start, at - start) if at > start else None
        begin = at
        if before is not None and not before.data.endswith(b"\n"):
            newline = before.data.rfind(b"\n")
            begin = start + newline + 1 if newline >= 0 else (start if start == 0 else at)
        # Extended by the bytes before `at`: otherwise the end of the log would never be reached.
        return await logs.read(name, begin, most + at - begin)
    except LookupError:
        raise PageError(404, "Log not found", "It may have been removed.") from None
