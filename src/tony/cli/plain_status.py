"""The plain view: status changes and output of a job as timestamped lines, for files, pipes and dumb terminals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TextIO

from tony import clock
from tony.cli.terminal.output import format_stamp, say
from tony.cli.text.log_printer import LogPrinter
from tony.cli.text.status_changes import StatusChanges
from tony.jobs.log_lines import LogLine
from tony.model.job_report import JobReport
from tony.model.state_directory import Home


class PlainView:
    """Prints timestamped lines: for files, pipes, and dumb terminals.

    Args:
        stream: the output.
    """

    shows_ages: ClassVar[bool] = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._changes = StatusChanges()
        self._logs = LogPrinter(stream)

    def on_report(self, report: JobReport) -> None:
        for line in self._changes.describe(report, clock.monotonic()):
            self._say(line)

    def on_session_opened(self, session: int, reason: str) -> None:
        self._say(self._changes.open_session(session, reason))

    def on_output(self, lines: Sequence[LogLine]) -> None:
        self._logs.print(lines, format_stamp())

    def on_notice(self, text: str) -> None:
        self._say(text)

    def show_question(self, text: str) -> None:
        if text:
            self._say(text)

    async def poll_progress(self, home: Home, job_id: str) -> None:
        """Return at once: lines show no progress."""

    def _say(self, text: str) -> None:
        say(f"{format_stamp()}{text}", to=self._stream)
        self._stream.flush()
