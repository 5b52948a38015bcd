"""Rows at the bottom of a terminal that are erased and redrawn in one write, together with new lines above them.

Each row is cut to the width of the terminal; if the window has become narrower since, the terminal has wrapped it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TextIO

from tony.cli.terminal.terminal_text import count_columns, cut, escape, find_size, format_age, format_table
from tony.cli.text.status_text import note_of
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import TaskState
from tony.units import format_duration


class LiveRegion:
    """The rows on the screen.

    Args:
        stream: a terminal that supports escape sequences.

    Attributes:
        rows: the rows as last drawn, without colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rows: list[str] = []
        self._stream = stream

    def draw(self, rows: list[str], above: Iterable[str] = (), paint: Callable[[str], str] = lambda row: row) -> None:
        """Erase the rows; write the lines `above` in their place, and `rows` below them.

        Args:
            paint: colours a row.
        """
        erase = self._erase_sequence()
        self.rows = rows
        table = "\n".join(map(paint, rows))
        self._stream.write("".join([erase, *(f"{line}\n" for line in above), table]))
        self._stream.flush()

    def leave(self) -> None:
        """Leave the rows on the screen; the next output begins below them."""
        if self.rows:
            self._stream.write("\n")
            self._stream.flush()
        self.rows = []

    def _erase_sequence(self) -> str:
        """Return the escape sequence that erases the rows, from the end of the last one."""
        if not self.rows:
            return ""
        columns = find_size(self._stream).columns
        up = sum(max(1, -(-count_columns(row) // columns)) for row in self.rows) - 1
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"


_HEADING = ("TASK", "STATE", "HOST", "PID", "FOR", "OUTPUT", "NOTE")
#: Columns that are dropped when the terminal is too narrow, in this order: host, pid, for, output.
_EXPENDABLE = (2, 3, 4, 5)


def format_live_table(report: JobReport, now: float, columns: int, rows: int, progress: str = "") -> list[str]:
    """Return the job on one line, a row for each task (or each role if there are too many), and what it waits for.

    Args:
        columns, rows: the available space.
        progress: the progress of the job; empty if it is unknown.
    """
    word = "after" if report.ended is not None else "for"
    until = report.ended if report.ended is not None else now
    took = f" {word} {format_age(report.submitted, until)}" if report.submitted is not None else ""
    session = f"  session {report.session}" if report.session else ""
    lines = [cut(f"{report.state.value}{took}{session}  {escape(report.name)}  {escape(report.job)}", columns)]
    if len(report.tasks) <= rows:
        lines += format_table([_HEADING, *(_task(task, now) for task in report.tasks)], columns, _EXPENDABLE)
    else:
        lines += format_table([("ROLE", "TASKS"), *_roles(report.tasks)], columns)
    return lines + [cut(escape(text), columns) for text in (progress, report.waiting, report.unfinished) if text]


def _task(task: TaskReport, now: float) -> tuple[str, ...]:
    output = "-" if task.last_output_age is None else f"{format_duration(task.last_output_age)} ago"
    ended = task.signal or (f"exit code {task.exit_code}" if task.exit_code else "")
    return (
        escape(task.task),
        task.state.value,
        escape(task.host or "-"),
        "-" if task.pid is None else str(task.pid),
        format_age(task.since, now),
        output,
        escape(note_of(task) or ended),
    )


def _roles(tasks: tuple[TaskReport, ...]) -> list[tuple[str, str]]:
    """Return role -> number of its tasks in each state."""
    counts: dict[str, Counter[TaskState]] = {}
    for task in tasks:
        counts.setdefault(task.role, Counter())[task.state] += 1
    return [
        (escape(role), ", ".join(f"{number} {state.value}" for state, number in counter.items()))
        for role, counter in counts.items()
    ]
