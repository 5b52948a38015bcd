"""The rows of the live table. Pure: time and size are arguments."""

from __future__ import annotations

from collections import Counter

from tony.cli.terminal.terminal_text import age, cut, safe, table
from tony.cli.text.status_text import note_of
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.units import format_duration

_HEADING = ("TASK", "STATE", "HOST", "PID", "FOR", "OUTPUT", "NOTE")
#: Columns that are dropped when the terminal is too narrow, in this order: host, pid, for, output.
_EXPENDABLE = (2, 3, 4, 5)


def live_table(report: JobReport, now: float, columns: int, rows: int, progress: str = "") -> list[str]:
    """Return the job on one line, a row for each task (or each role if there are too many), and what it waits for.

    Args:
        columns, rows: the available space.
        progress: the progress of the job; empty if it is unknown.
    """
    word = "after" if report.ended is not None else "for"
    until = report.ended if report.ended is not None else now
    took = f" {word} {age(report.submitted, until)}" if report.submitted is not None else ""
    session = f"  session {report.session}" if report.session else ""
    lines = [cut(f"{report.state.value}{took}{session}  {safe(report.name)}  {safe(report.job)}", columns)]
    if len(report.tasks) <= rows:
        lines += table([_HEADING, *(_task(task, now) for task in report.tasks)], columns, _EXPENDABLE)
    else:
        lines += table([("ROLE", "TASKS"), *_roles(report.tasks)], columns)
    return lines + [cut(safe(text), columns) for text in (progress, report.waiting, report.unfinished) if text]


def _task(task: TaskReport, now: float) -> tuple[str, ...]:
    output = "-" if task.last_output_age is None else f"{format_duration(task.last_output_age)} ago"
    ended = task.signal or (f"exit code {task.exit_code}" if task.exit_code else "")
    return (
        safe(task.task),
        task.state.value,
        safe(task.host or "-"),
        "-" if task.pid is None else str(task.pid),
        age(task.since, now),
        output,
        safe(note_of(task) or ended),
    )


def _roles(tasks: tuple[TaskReport, ...]) -> list[tuple[str, str]]:
    """Return role -> number of its tasks in each state."""
    counts: dict[str, Counter[TaskState]] = {}
    for task in tasks:
        counts.setdefault(task.role, Counter())[task.state] += 1
    return [
        (safe(role), ", ".join(f"{number} {state.value}" for state, number in counter.items()))
        for role, counter in counts.items()
    ]
