"""The table of a job's tasks: its columns, and what they show and sort by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tony.jobs.task_use import TaskUse, find_task_use
from tony.model.job_report import JobReport, TaskReport
from tony.model.submission_record import JobRecord
from tony.web.pages.readings import JobReadings
from tony.web.template_rendering import TableColumn

SortKey = Callable[[TaskReport, TaskUse], tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskColumn:
    """A column.

    Attributes:
        word: value of the parameter `sort`; empty if the table cannot be sorted by it.
        key: None for the order of the job file.
        has_value: of a column that is left out if no task of the job has a value; None for others.
    """

    title: str
    word: str = ""
    key: SortKey | None = None
    has_value: Callable[[TaskReport, TaskUse], bool] | None = None
    is_number: bool = False


def _order_descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


#: In the order of the table.
COLUMNS: Sequence[TaskColumn] = (
    TaskColumn(title="Task", word="task"),
    TaskColumn(title="State", word="state", key=lambda task, use: (task.state.value,)),
    TaskColumn(
        title="Step",
        word="step",
        key=lambda task, use: (use.progress is None, use.progress.step if use.progress else 0.0),
        has_value=lambda task, use: use.progress is not None,
        is_number=True,
    ),
    TaskColumn(
        title="Rate",
        word="rate",
        key=lambda task, use: (use.progress is None, use.progress.rate or 0.0 if use.progress else 0.0),
        has_value=lambda task, use: use.progress is not None,
        is_number=True,
    ),
    TaskColumn(
        title="GPU",
        word="gpu",
        key=lambda task, use: _order_descending(use.gpu),
        has_value=lambda task, use: use.gpu is not None,
        is_number=True,
    ),
    TaskColumn(
        title="CPU",
        word="cpu",
        key=lambda task, use: _order_descending(use.cpu),
        has_value=lambda task, use: use.cpu is not None,
        is_number=True,
    ),
    TaskColumn(
        title="Memory",
        word="memory",
        key=lambda task, use: _order_descending(use.rss),
        has_value=lambda task, use: use.rss is not None,
        is_number=True,
    ),
    TaskColumn(title="Host", word="host", key=lambda task, use: (task.host or "~",)),
    TaskColumn(title="Since", word="since", key=lambda task, use: (-(task.since or 0.0),)),
    TaskColumn(
        title="Last output",
        word="output",
        key=lambda task, use: _order_descending(task.last_output_age),
        has_value=lambda task, use: task.last_output_age is not None,
    ),
    TaskColumn(
        title="Exit",
        word="exit",
        key=lambda task, use: (
            task.exit_code is None and task.signal is None,
            task.signal or "",
            task.exit_code or 0,
        ),
        has_value=lambda task, use: task.exit_code is not None or task.signal is not None,
    ),
    TaskColumn(
        title="Note",
        word="note",
        key=lambda task, use: (not task.note, task.note),
        has_value=lambda task, use: bool(task.note) and not task.note_repeats_exit,
    ),
    TaskColumn(title="Output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """The numbers of the table, and its columns.

    Attributes:
        uses: of each task of the job.
        limits: role -> memory limit, bytes.
        shown: columns in which a task of the job has a value.
    """

    uses: dict[str, TaskUse]
    limits: dict[str, int]
    shown: tuple[TaskColumn, ...]

    @property
    def titles(self) -> frozenset[str]:
        """The titles of the columns."""
        return frozenset(column.title for column in self.shown)

    def build_headings(self, build: Callable[[TaskColumn], TableColumn] | None = None) -> list[TableColumn]:
        """Return the headings of the columns; without `build`, they are no links."""
        return [
            build(column) if build else TableColumn(title=column.title, href="", order="", is_number=column.is_number)
            for column in self.shown
        ]


def build_task_table(report: JobReport, record: object, readings: JobReadings) -> TaskTable:
    """Return the table of a job's tasks.

    Args:
        record: the resolved job, if it is known.
    """
    uses = find_task_use(report, readings.newest, readings.reports)
    roles = record.spec.effective_roles if isinstance(record, JobRecord) else {}
    return TaskTable(
        uses=uses,
        limits={name: role.resources.memory for name, role in roles.items()},
        shown=tuple(
            column
            for column in COLUMNS
            if column.has_value is None or any(column.has_value(task, uses[task.task]) for task in report.tasks)
        ),
    )
