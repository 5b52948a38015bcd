"""One task: how it stands, its tries and their output, what it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from markupsafe import Markup
from starlette.responses import Response

from tony.config.secret_names import masked
from tony.dataclass import dataclass
from tony.history.timeline import Span, TaskPhase, Timeline
from tony.model.ids import TaskId
from tony.model.job_record import JobRecord
from tony.model.job_report import TaskReport
from tony.web import ansi_html
from tony.web.job_source import LogFileInfo, Logs
from tony.web.pages.job_layout import Unknown, await_with_timeout, frame, known
from tony.web.request import PageRequest
from tony.web.template_rendering import render
from tony.web.timeline_svg import LEGEND

#: Bytes and lines from the end of each stream that the page shows.
_END, _LINES = 8000, 20
#: Seconds that it waits for what the task did, and for where its containers are shown: the scheduler may be asked.
_PATIENCE, _CONTAINERS = 0.5, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One program: the files of its output."""

    session: int
    try_: int
    files: tuple[LogFileInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTail:
    """The last lines of a stream."""

    file: LogFileInfo
    lines: tuple[Markup, ...]
    whole: bool


async def page(asked: PageRequest) -> Response:
    """The page."""
    view, report = await asked.job()
    task = asked.task(report)
    found = next(each for each in report.tasks if each.task == str(task))
    logs = view.logs(str(task))
    values = await frame(asked, view, report, "")
    files, held = await asyncio.gather(known(logs.files()), await_with_timeout(view.containers(str(task)), _CONTAINERS))
    line = await await_with_timeout(view.timeline(), _PATIENCE)
    record = values["record"]
    values |= {
        "title": f"{task} of {report.name}",
        "task": found,
        "missing": "" if isinstance(files, Unknown) else await logs.missing(),
        "held": [] if isinstance(held, Unknown) else held,
        "tries": files if isinstance(files, Unknown) else _tries(files),
        "ends": [] if isinstance(files, Unknown) else await _ends(logs, files, found),
        "spans": _spans(line, str(task)),
        "accepted": line.accepted if isinstance(line, Timeline) else 0.0,
        "legend": dict(LEGEND),
        "given": _given(record, task) if isinstance(record, JobRecord) else None,
    }
    return render("task.html", asked, values)


def _tries(files: Sequence[LogFileInfo]) -> list[Try]:
    """The latest first."""
    groups: dict[tuple[int, int], list[LogFileInfo]] = {}
    for file in files:
        groups.setdefault((file.session, file.try_), []).append(file)
    return [Try(session=key[0], try_=key[1], files=tuple(groups[key])) for key in sorted(groups, reverse=True)]


async def _ends(logs: Logs, files: Sequence[LogFileInfo], task: TaskReport) -> list[OutputTail]:
    """Of the latest try's streams; what it printed as errors first, if it failed."""
    latest = max(((file.session, file.try_) for file in files), default=None)
    made: list[OutputTail] = []
    for file in files:
        if (file.session, file.try_) != latest or not file.size:
            continue
        piece = await logs.read(file.name, -_END, _END)
        shown, _ = ansi_html.lines(piece.data)
        lines = [html for _, html in shown][1 if piece.offset else 0 :]
        whole = piece.offset == 0 and len(lines) <= _LINES
        made.append(OutputTail(file=file, lines=tuple(lines[-_LINES:]), whole=whole))
    return sorted(made, key=lambda end: end.file.stream == "out")


def _spans(line: object, task: str) -> Sequence[Span] | None:
    if not isinstance(line, Timeline):
        return None
    return [span for span in line.spans if span.task == task and span.what is not TaskPhase.GONE]


def _given(record: JobRecord, task: TaskId) -> dict[str, object] | None:
    """What the task got, without secrets."""
    spec = record.spec
    role = spec.effective_roles.get(task.role)
    if role is None:
        return None
    command = spec.command_of(task.role)
    return {
        "command": " ".join(command) if isinstance(command, tuple) else command,
        "memory": role.resources.memory,
        "vcores": role.resources.vcores,
        "gpus": role.resources.gpus,
        "kind": role.kind.value,
        "env": sorted((name, masked(name, value, spec.secret)) for name, value in spec.env_of(task.role).items()),
    }
