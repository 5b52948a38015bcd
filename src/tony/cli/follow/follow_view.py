"""View of a followed job: timestamped lines, or on a terminal a live table below the output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Protocol, TextIO

from tony import clock
from tony.cli.terminal.output import knows_sequences, say
from tony.cli.terminal.terminal_text import is_terminal
from tony.cli.text.log_printer import LogPrinter
from tony.cli.text.status_changes import StatusChanges
from tony.jobs.job_follower import Viewer
from tony.jobs.logs.log_reader import LogLine
from tony.model.job_report import JobReport
from tony.model.layout import Home


class TerminalViewer(Viewer, Protocol):
    """Shows a followed job to the user of a terminal, file or pipe.

    Attributes:
        shows_ages: reports are needed even if only time has passed.
    """

    shows_ages: ClassVar[bool]

    async def poll_progress(self, home: Home, job_id: str) -> None:
        """Keep the displayed progress of the running job current, until cancelled."""


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

    async def poll_progress(self, home: Home, job_id: str) -> None:
        """Return at once: lines show no progress."""

    def _say(self, text: str) -> None:
        say(f"{format_stamp()}{text}", to=self._stream)
        self._stream.flush()


def format_stamp() -> str:
    """Return the time of day that each line begins with."""
    return time.strftime("%H:%M:%S ")


def create_view(stream: TextIO) -> AbstractContextManager[TerminalViewer]:
    """Return the view for a stream, a context manager: at its end a live table is removed."""
    if is_terminal(stream) and knows_sequences():
        from tony.cli.terminal.live_status import LiveView

        return LiveView(stream)
    plain: AbstractContextManager[Any] = nullcontext(PlainView(stream))
    return plain
