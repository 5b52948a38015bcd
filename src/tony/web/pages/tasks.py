"""The tasks of a job in pages, with search, filters and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.responses import Response

from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.web.pages.job_layout import build_frame, build_pager, count_states
from tony.web.request import PageError, PageRequest
from tony.web.template_rendering import TableColumn, render

_PAGE_SIZE = 100
_Key = Callable[[TaskReport], tuple[object, ...]]
#: Columns of the table: heading, value of the `sort` parameter, sort key.
_COLUMNS: Sequence[tuple[str, str, _Key | None]] = (
    ("Task", "task", None),
    ("State", "state", lambda task: (task.state.value,)),
    ("Host", "host", lambda task: (task.host or "~",)),
    ("Since", "since", lambda task: (-(task.since or 0.0),)),
    ("Last output", "output", lambda task: (task.last_output_age is None, -(task.last_output_age or 0.0))),
    (
        "Exit",
        "exit",
        lambda task: (task.exit_code is None and task.signal is None, task.signal or "", task.exit_code or 0),
    ),
    ("Note", "note", lambda task: (not task.note, task.note)),
    ("Output", "", None),
)


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    words = {
        name: page_request.get_word(name)
        for name in ("state", "role", "text", "sort", "reverse")
        if page_request.get_word(name)
    }
    found = _sort(_filter(report, words), words.get("sort", ""), words.get("reverse", "") == "yes")
    start = min(page_request.get_number("from", 0), max(0, len(found) - 1) // _PAGE_SIZE * _PAGE_SIZE)
    path = page_request.links.to_job(report.job, "tasks").removeprefix(page_request.links.root)
    values = await build_frame(page_request, view, report, "tasks")
    values |= {
        "counts": count_states(report.tasks),
        "roles": sorted({task.role for task in report.tasks}),
        "states": [state.value for state in TaskState],
        "words": words,
        "tasks": found[start : start + _PAGE_SIZE],
        "total": len(found),
        "pages": build_pager(page_request, path, words, start, _PAGE_SIZE, len(found)),
        "task_columns": [_build_column(page_request, path, words, *column) for column in _COLUMNS],
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


def _sort(tasks: list[TaskReport], sort: str, reverse: bool) -> list[TaskReport]:
    key = next((key for _, word, key in _COLUMNS if word and word == sort), None)
    if key is not None:
        tasks.sort(key=key)
    return tasks[::-1] if reverse else tasks


def _build_column(
    page_request: PageRequest, path: str, words: dict[str, str], title: str, word: str, key: _Key | None
) -> TableColumn:
    if not word:
        return TableColumn(title=title, href="", order="")
    is_sorted = words.get("sort", "task") == word
    down = words.get("reverse") == "yes"
    query = {**words, "sort": "" if word == "task" else word, "reverse": "yes" if is_sorted and not down else ""}
    order = ("descending" if down else "ascending") if is_sorted else ""
    return TableColumn(title=title, href=page_request.links.to_page(path, query), order=order)
