"""A job's tasks, a page at a time: by state, by role, by what their note says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.responses import Response

from tony.dataclass import dataclass
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.web.pages.job_layout import counts, frame, steps
from tony.web.request import NotAnswered, PageRequest
from tony.web.template_rendering import render

_MOST = 100
_Key = Callable[[TaskReport], tuple[object, ...]]
#: Heading, word of the address, and what it is ordered by.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskColumn:
    """A heading."""

    title: str
    href: str
    order: str


async def page(asked: PageRequest) -> Response:
    """The page."""
    view, report = await asked.job()
    words = {name: asked.word(name) for name in ("state", "role", "text", "sort", "reverse") if asked.word(name)}
    found = _ordered(_chosen(report, words), words.get("sort", ""), words.get("reverse", "") == "yes")
    start = min(asked.number("from", 0), max(0, len(found) - 1) // _MOST * _MOST)
    path = asked.links.job(report.job, "tasks").removeprefix(asked.links.root)
    values = await frame(asked, view, report, "tasks")
    values |= {
        "counts": counts(report.tasks),
        "roles": sorted({task.role for task in report.tasks}),
        "states": [state.value for state in TaskState],
        "words": words,
        "tasks": found[start : start + _MOST],
        "total": len(found),
        "pages": steps(asked, path, words, start, _MOST, len(found)),
        "task_columns": [_column(asked, path, words, *column) for column in _COLUMNS],
    }
    return render("tasks.html", asked, values)


def _chosen(report: JobReport, words: dict[str, str]) -> list[TaskReport]:
    state, role, text = (words.get(name, "") for name in ("state", "role", "text"))
    if state and state not in [each.value for each in TaskState]:
        raise NotAnswered(400, "The address makes no sense", f"No task is ever {state[:60]!r}.")
    text = text.casefold()
    return [
        task
        for task in report.tasks
        if (not state or task.state.value == state)
        and (not role or task.role == role)
        and (not text or any(text in said.casefold() for said in (task.task, task.host or "", task.note)))
    ]


def _ordered(tasks: list[TaskReport], sort: str, reverse: bool) -> list[TaskReport]:
    key = next((key for _, word, key in _COLUMNS if word and word == sort), None)
    if key is not None:
        tasks.sort(key=key)
    return tasks[::-1] if reverse else tasks


def _column(
    asked: PageRequest, path: str, words: dict[str, str], title: str, word: str, key: _Key | None
) -> TaskColumn:
    if not word:
        return TaskColumn(title=title, href="", order="")
    here = words.get("sort", "task") == word
    down = words.get("reverse") == "yes"
    query = {**words, "sort": "" if word == "task" else word, "reverse": "yes" if here and not down else ""}
    order = ("descending" if down else "ascending") if here else ""
    return TaskColumn(title=title, href=asked.links.page(path, query), order=order)
