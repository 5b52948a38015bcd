"""The live view: the status table of the job and its tasks below the scrolling output.

The table is erased and redrawn together with each new output.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Self, TextIO

from tony import clock
from tony.cli.terminal.live_region import LiveRegion
from tony.cli.terminal.output import has_colours
from tony.cli.terminal.terminal_text import find_size
from tony.cli.text.log_printer import LogPrinter
from tony.cli.text.metric_values import format_progress
from tony.cli.text.status_changes import StatusChanges
from tony.cli.text.status_text import format_live_table
from tony.control_characters import escape
from tony.errors import InfraError
from tony.jobs.log_lines import LogLine
from tony.model.job_report import JobReport
from tony.model.progress import JobProgress
from tony.model.progress_rules import share_of
from tony.model.state_directory import Home
from tony.model.states import TaskState

#: Seconds between two requests for the progress.
_PROGRESS_SECONDS = 2.0
#: Rows of a narrow terminal that a question may take.
_QUESTION_ROWS = 2
_DIM = "\x1b[2m{}\x1b[0m"


class LiveView:
    """Scrolling output with a table below it. A context manager: at its end the table is removed, the output stays."""

    #: Request reports even if only time has passed.
    shows_ages: ClassVar[bool] = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._coloured = has_colours(stream)
        self._changes = StatusChanges()
        self._logs = LogPrinter(stream)
        self._table = LiveRegion(stream)
        self._report: JobReport | None = None
        self._progress: JobProgress | None = None
        self._rows: list[str] = []
        self._question = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._question = ""
        self._draw((), [])

    def on_report(self, report: JobReport) -> None:
        self._report = report
        lines = self._changes.describe(report, clock.monotonic())
        size = find_size(self._stream)
        progress = _format_current_progress(self._progress, report)
        rows = format_live_table(report, clock.wall(), size.columns - 1, max(3, size.lines // 3), progress)
        self._draw(map(self._dim_text, lines), rows[: max(1, size.lines - _QUESTION_ROWS - 1)])

    async def poll_progress(self, home: Home, job_id: str) -> None:
        """Keep the progress of the running job current, until cancelled."""
        # late: the first table does not wait for it
        from tony.jobs.job_metrics import find_job_progress, read_progress

        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            report = self._report
            if report is None or not report.session or report.state.ended:
                continue
            with contextlib.suppress(InfraError):
                tasks = [task.task for task in report.tasks]
                self._progress = find_job_progress(await read_progress(home.job(job_id), tasks, live=True), report)

    def on_session_opened(self, session: int, reason: str) -> None:
        self.on_notice(self._changes.open_session(session, reason))

    def on_output(self, lines: Sequence[LogLine]) -> None:
        self._draw(map(self._logs.format_line, lines), self._rows)

    def on_notice(self, text: str) -> None:
        self._draw([self._dim_text(text)], self._rows)

    def show_question(self, text: str) -> None:
        self._question = text
        self._draw((), self._rows)

    def _dim_text(self, text: str) -> str:
        return _DIM.format(escape(text)) if self._coloured else escape(text)

    def _draw(self, above: Iterable[str], rows: list[str]) -> None:
        self._rows = rows
        self._table.draw([*rows, self._question] if self._question else rows, above)


def _format_current_progress(progress: JobProgress | None, report: JobReport) -> str:
    """Return the progress of a job with the share that the steps of a newer report have: both are shown together."""
    tasks = [task for task in report.tasks if task.step is not None and task.session == report.session]
    if progress is None or not tasks or report.state.ended:
        return ""
    if progress.stalled is not None:
        return format_progress(progress)
    shares = [
        share_of(task.step, task.total, succeeded=False) for task in tasks if task.state is not TaskState.SUCCEEDED
    ]
    return format_progress(replace(progress, share=min((s for s in shares if s is not None), default=progress.share)))
