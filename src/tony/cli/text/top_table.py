"""The table of `tony top`: resource use and progress of each task. Pure: time and size are arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tony.cli.terminal.terminal_text import cut, format_age, format_clock_time, format_table, wrap_sentence
from tony.cli.text.metric_values import NOTHING, draw_sparkline, format_measure, format_progress, format_steps
from tony.cli.text.status_text import format_live_headline
from tony.control_characters import escape
from tony.jobs.job_metrics import Reports, find_last_value
from tony.jobs.task_use import TaskUse, find_task_use
from tony.model.job_report import JobReport, TaskReport
from tony.model.job_spec import JobSpec
from tony.model.metric_definitions import Points
from tony.model.progress import JobProgress, TaskProgress
from tony.units import Unit, format_duration

#: Width of a sparkline, and number of points that are read.
SPARK_COLUMNS = 12
_HEADING = ("TASK", "STATE", "CPU", "", "MEMORY", "", "GPU", "", "GPU MEM", "STEP", "PROGRESS", "LEFT")
_GPU = (6, 7, 8)
#: Columns that are dropped when the terminal is too narrow, in this order.
_EXPENDABLE = (5, 7, 3, 8, 11, 9)


class TopSort(Enum):
    """The sort order of rows; the first letter is its key on the keyboard."""

    TASK = "task"
    STATE = "state"
    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """One task; unknown numbers are None.

    Attributes:
        cpu: cores in use; limit: memory limit, bytes.
        gpu: mean utilisation of its GPUs, 0 to 1; gpu_memory: bytes, sum of its GPUs.
        progress: None if the task has reported no step.
        cpus, rsss, gpus: recent values, for sparklines.
    """

    task: str
    state: str
    cpu: float | None = None
    rss: float | None = None
    limit: int = 0
    gpu: float | None = None
    gpu_memory: float | None = None
    progress: TaskProgress | None = None
    cpus: Sequence[float] = ()
    rsss: Sequence[float] = ()
    gpus: Sequence[float] = ()


def list_top_series(spec: JobSpec) -> tuple[str, ...]:
    """Return the names of the series that are shown."""
    most = max((role.resources.gpus for role in spec.effective_roles.values()), default=0)
    devices = [f"gpu{device}.{name}" for device in range(most) for name in ("util", "memory")]
    return ("cpu", "rss", *devices)


def build_rows(report: JobReport, spec: JobSpec, measured: Iterable[Points], reports: Reports) -> list[TopRow]:
    """Return a row for each task with its last metrics; a task that is not running has only its progress."""
    of: dict[str, dict[str, Points]] = {}
    for points in measured:
        if points.mean:
            of.setdefault(points.task, {})[points.series] = points
    newest = {
        task: {name: value for name, points in found.items() if (value := find_last_value(points)) is not None}
        for task, found in of.items()
    }
    uses = find_task_use(report, newest, reports)
    limits = {name: role.resources.memory for name, role in spec.effective_roles.items()}
    return [
        _build_row(
            task,
            of.get(task.task, {}) if task.pid is not None or report.state.ended else {},
            limits.get(task.role, 0),
            uses[task.task],
        )
        for task in report.tasks
    ]


def _build_row(task: TaskReport, shown: Mapping[str, Points], limit: int, use: TaskUse) -> TopRow:
    utils = [points for name, points in shown.items() if name.startswith("gpu") and name.endswith(".util")]
    return TopRow(
        task=task.task,
        state=task.state.value,
        cpu=use.cpu,
        rss=use.rss,
        limit=limit,
        gpu=use.gpu,
        gpu_memory=use.gpu_memory,
        progress=use.progress,
        cpus=shown["cpu"].mean if "cpu" in shown else (),
        rsss=shown["rss"].mean if "rss" in shown else (),
        gpus=[sum(values) / len(values) for values in zip(*(points.mean for points in utils), strict=False)],
    )


_KEYS: Mapping[TopSort, Callable[[TopRow], float]] = {
    TopSort.CPU: lambda row: -1.0 if row.cpu is None else row.cpu,
    TopSort.MEMORY: lambda row: -1.0 if row.rss is None else row.rss,
    TopSort.GPU: lambda row: -1.0 if row.gpu is None else row.gpu,
    TopSort.PROGRESS: lambda row: -1.0 if row.progress is None else row.progress.step,
}


def sort_rows(rows: Sequence[TopRow], sort: TopSort) -> list[TopRow]:
    """Sort rows: largest use first, least progress first, tasks and states in their own order."""
    if sort is TopSort.TASK:
        return list(rows)
    if sort is TopSort.STATE:
        return sorted(rows, key=lambda row: row.state)
    return sorted(rows, key=_KEYS[sort], reverse=sort is not TopSort.PROGRESS)


def format_top_table(
    report: JobReport,
    rows: Sequence[TopRow],
    now: float,
    columns: int | None,
    lines: int | None,
    sort: TopSort = TopSort.TASK,
    *,
    progress: JobProgress | None = None,
    unicode: bool = True,
    keys: bool = False,
) -> list[str]:
    """Return the job on one line, its totals on another, then as many rows of tasks as fit.

    Args:
        lines: the available lines; None for no limit.
        progress: the progress of the job.
        keys: explain the keys below the table.
    """
    head = [format_live_headline(report, now), _format_sums(report, rows, now, progress)]
    foot = (
        [f"sorted by {sort.value}; {', '.join(f'{each.value[0]} {each.value}' for each in TopSort)}, q quit"]
        if keys
        else []
    )
    for sentence in filter(None, map(escape, (report.waiting, report.stragglers, report.unfinished))):
        head += [sentence] if columns is None else wrap_sentence(sentence, columns)
    if report.stalled:
        head.append(f"see: tony stacks {escape(report.job)}")
    row_count = None if lines is None else max(1, lines - len(head) - len(foot) - 1)
    chosen = sort_rows(rows, sort)
    if row_count is not None and len(chosen) > row_count:
        chosen = chosen[: max(1, row_count - 1)]
        foot.insert(0, f"and {len(rows) - len(chosen)} more")
    cells = [_HEADING, *(_format_cells(row, unicode=unicode) for row in chosen)]
    dropped = {*(() if any(row.gpu is not None for row in chosen) else _GPU)}
    dropped |= {
        place for place in range(2, len(_HEADING)) if not any(row[place] not in ("", NOTHING) for row in cells[1:])
    }
    kept = [place for place in range(len(_HEADING)) if place not in dropped]
    drop = [kept.index(place) for place in _EXPENDABLE if place in kept]
    made = format_table([[row[place] for place in kept] for row in cells], columns, drop)
    text = [*head, *made, *foot]
    return text if columns is None else [cut(line, columns) for line in text]


def _format_sums(report: JobReport, rows: Sequence[TopRow], now: float, progress: JobProgress | None) -> str:
    """Return the totals of all tasks: present ones, or the last."""
    measured = ", ".join(_format_measures(rows, progress))
    if report.state.ended:
        ago = (
            ""
            if report.ended is None
            else f" at {format_clock_time(report.ended)}, {format_age(report.ended, now)} ago"
        )
        return f"ended{ago}{'; last values: ' if measured else ''}{measured}"
    running = f"{sum(row.state == 'running' for row in rows)} of {len(rows)} running"
    return f"{running}, {measured}" if measured else running


def _format_measures(rows: Sequence[TopRow], progress: JobProgress | None) -> list[str]:
    parts: list[str] = []
    cpu, rss = [row.cpu for row in rows if row.cpu is not None], [row.rss for row in rows if row.rss is not None]
    gpu = [row.gpu for row in rows if row.gpu is not None]
    if cpu:
        parts.append(f"{format_measure(sum(cpu), Unit.CORES)} cores")
    if rss:
        parts.append(f"{format_measure(sum(rss), Unit.BYTES)} memory")
    if gpu:
        parts.append(f"GPUs {format_measure(sum(gpu) / len(gpu), Unit.SHARE)}")
    if progress is not None and (sentence := format_progress(progress)):
        parts.append(sentence)
    return parts


def _format_cells(row: TopRow, *, unicode: bool) -> tuple[str, ...]:
    def draw_cell(values: Sequence[float]) -> str:
        return (
            draw_sparkline(values[-SPARK_COLUMNS:], SPARK_COLUMNS, unicode=unicode, from_zero=True)
            if len(values) > 1
            else ""
        )

    memory = format_measure(row.rss, Unit.BYTES)
    if row.rss is not None and row.limit:
        memory += f" {100 * row.rss / row.limit:.0f}%"
    known = row.progress
    return (
        escape(row.task),
        row.state,
        format_measure(row.cpu, Unit.CORES),
        draw_cell(row.cpus),
        memory,
        draw_cell(row.rsss),
        format_measure(row.gpu, Unit.SHARE),
        draw_cell(row.gpus),
        format_measure(row.gpu_memory, Unit.BYTES),
        format_steps(known.step, known.total) if known else NOTHING,
        _draw_bar(known.share if known else None, unicode=unicode),
        _format_time_left(known),
    )


def _format_time_left(progress: TaskProgress | None) -> str:
    if progress is None:
        return NOTHING
    if progress.waits_for:
        return f"waiting {format_duration(progress.stalled or 0.0)}"
    if progress.stalled is not None:
        return f"stalled {format_duration(progress.stalled)}"
    if progress.overdue is not None:
        return f"no report for {format_duration(progress.overdue)}"
    return NOTHING if progress.left is None else format_duration(progress.left)


def _draw_bar(share: float | None, *, unicode: bool) -> str:
    if share is None:
        return NOTHING
    full = int(10 * share)
    return f"{('█' if unicode else '#') * full}{('░' if unicode else '.') * (10 - full)} {100 * share:.0f}%"
