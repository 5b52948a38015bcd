"""The tasks of a job in pages, with search, filters and sorting; and one task: status, attempts, output, resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup
from starlette.responses import Response

from tony.history.metrics_reader import Metrics
from tony.history.timeline import Span, TaskPhase, Timeline
from tony.history.timeline_drawing import PHASE_TEXTS
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.task_logs import TaskLogs
from tony.jobs.job_metrics import find_task_progress, read_reports
from tony.jobs.log_files import LogFileInfo
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.masking import mask_secret
from tony.model.states import TaskState
from tony.model.submission_record import JobRecord
from tony.web import ansi_html
from tony.web.pages import charts
from tony.web.pages.job_layout import Unknown, await_part, await_with_timeout, build_frame, build_pager, count_states
from tony.web.pages.readings import load_readings
from tony.web.pages.task_table import COLUMNS, TaskColumn, TaskTable, build_task_table
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import TableColumn, render

_PAGE_SIZE = 100
#: Bytes that are read from the end of each stream, and lines that are shown.
_TAIL_BYTES = 8000
_TAIL_LINES = 20
#: How long the page waits for the timeline, and for the containers: the scheduler may be queried for these.
_TIMELINE_TIMEOUT_SECONDS = 0.5
_CONTAINERS_TIMEOUT_SECONDS = 3.0


async def render_tasks(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job(shown=ShownFiles(metrics=True))
    words = {
        name: page_request.get_word(name)
        for name in ("state", "role", "text", "sort", "reverse")
        if page_request.get_word(name)
    }
    values = await build_frame(page_request, view, report, "tasks")
    table = build_task_table(report, values["record"], await load_readings(view, report))
    found = _sort(_filter(report, words), table, words.get("sort", ""), words.get("reverse", "") == "yes")
    start = min(page_request.get_number("from", 0), max(0, len(found) - 1) // _PAGE_SIZE * _PAGE_SIZE)
    path = page_request.links.to_job(report.job, "tasks").removeprefix(page_request.links.root)
    values |= {
        "counts": count_states(report.tasks),
        "roles": sorted({task.role for task in report.tasks}),
        "states": [state.value for state in TaskState],
        "words": words,
        "tasks": found[start : start + _PAGE_SIZE],
        "total": len(found),
        "pages": build_pager(page_request, path, words, start, _PAGE_SIZE, len(found)),
        "numbers": table,
        "task_columns": table.build_headings(partial(_build_heading, page_request, path, words)),
    }
    return render("tasks.html", page_request, values)


def _filter(report: JobReport, words: dict[str, str]) -> list[TaskReport]:
    state, role, text = (words.get(name, "") for name in ("state", "role", "text"))
    if state and state not in [each.value for each in TaskState]:
        raise PageError(400, "Invalid address", f"{state[:60]!r} is not a task state.")
    text = text.casefold()
    return [
        task
        for task in report.tasks
        if (not state or task.state.value == state)
        and (not role or task.role == role)
        and (not text or any(text in value.casefold() for value in (task.task, task.host or "", task.note)))
    ]


def _sort(tasks: list[TaskReport], table: TaskTable, sort: str, reverse: bool) -> list[TaskReport]:
    key = next((column.key for column in COLUMNS if column.word and column.word == sort), None)
    if key is not None:
        tasks.sort(key=lambda task: key(task, table.uses[task.task]))
    return tasks[::-1] if reverse else tasks


def _build_heading(page_request: PageRequest, path: str, words: dict[str, str], column: TaskColumn) -> TableColumn:
    if not column.word:
        return TableColumn(title=column.title, href="", order="", is_number=column.is_number)
    is_sorted = words.get("sort", "task") == column.word
    down = words.get("reverse") == "yes"
    sort, reverse = "" if column.word == "task" else column.word, "yes" if is_sorted and not down else ""
    return TableColumn(
        title=column.title,
        href=page_request.links.to_page(path, {**words, "sort": sort, "reverse": reverse}),
        order=("descending" if down else "ascending") if is_sorted else "",
        is_number=column.is_number,
    )


# --- one task ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """The output files of one task attempt."""

    session: int
    try_: int
    files: tuple[LogFileInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTail:
    """The last lines of a stream."""

    file: LogFileInfo
    lines: tuple[Markup, ...]
    whole: bool


async def render_task(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job(
        shown=ShownFiles(metrics=True, task=page_request.request.path_params["task"])
    )
    task = page_request.find_task(report)
    found = next(each for each in report.tasks if each.id == task)
    logs = view.task_logs(str(task))
    values = await build_frame(page_request, view, report, "")
    files, containers = await asyncio.gather(
        await_part(logs.files()), await_with_timeout(view.containers(str(task)), _CONTAINERS_TIMEOUT_SECONDS)
    )
    line = await await_with_timeout(view.timeline(), _TIMELINE_TIMEOUT_SECONDS)
    record = values["record"]
    values |= {
        "title": f"{task} of {report.name}",
        "task": found,
        "missing": "" if isinstance(files, Unknown) else await logs.explain_missing(),
        "containers": [] if isinstance(containers, Unknown) else containers,
        "attempts": files if isinstance(files, Unknown) else _group_attempts(files),
        "tails": [] if isinstance(files, Unknown) else await _read_tails(logs, files),
        "spans": _find_spans(line, str(task)),
        "accepted": line.accepted if isinstance(line, Timeline) else 0.0,
        "charts": await view.query_metrics(partial(_build_charts, report=report, task=str(task))) or (),
        "legend": PHASE_TEXTS,
        "resources": _collect_resources(record, task) if isinstance(record, JobRecord) else None,
    }
    return render("task.html", page_request, values)


def _build_charts(metrics: Metrics, report: JobReport, task: str) -> tuple[charts.ChartGroup, ...]:
    newest = charts.read_newest(metrics, find_task_progress(read_reports(metrics), report))
    return charts.group_charts([charts.list_measured(metrics, task)], charts.select_task(newest, task))


def _group_attempts(files: Sequence[LogFileInfo]) -> list[TaskAttempt]:
    """Group log files by task attempt, newest first."""
    groups: dict[tuple[int, int], list[LogFileInfo]] = {}
    for file in files:
        groups.setdefault((file.session, file.try_), []).append(file)
    return [TaskAttempt(session=key[0], try_=key[1], files=tuple(groups[key])) for key in sorted(groups, reverse=True)]


async def _read_tails(logs: TaskLogs, files: Sequence[LogFileInfo]) -> list[OutputTail]:
    """Return the tails of the latest task attempt's streams that are not empty, standard error first."""
    latest = max(((file.session, file.try_) for file in files), default=None)
    tails: list[OutputTail] = []
    for file in files:
        if (file.session, file.try_) != latest or not file.size:
            continue
        piece = await logs.read(file.name, -_TAIL_BYTES, _TAIL_BYTES)
        shown, _ = ansi_html.render_lines(piece.data)
        lines = [html for _, html in shown][1 if piece.offset else 0 :]
        whole = piece.offset == 0 and len(lines) <= _TAIL_LINES
        tails.append(OutputTail(file=file, lines=tuple(lines[-_TAIL_LINES:]), whole=whole))
    return sorted(tails, key=lambda tail: tail.file.stream == "out")


def _find_spans(line: object, task: str) -> Sequence[Span] | None:
    if not isinstance(line, Timeline):
        return None
    return [span for span in line.spans if span.task == task and span.what is not TaskPhase.NO_CONTAINER]


def _collect_resources(record: JobRecord, task: TaskId) -> dict[str, object] | None:
    """Return the resources, command and environment of a task, without secrets."""
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
        "env": sorted((name, mask_secret(name, value, spec.secret)) for name, value in spec.env_of(task.role).items()),
    }
