"""How a job looks while it is followed: timestamped lines, or on a terminal a live table below the output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TextIO

from tony import clock
from tony.cli.log_printer import LogPrinter
from tony.cli.output import knows_sequences, say
from tony.cli.story import StatusChanges
from tony.cli.terminal_text import is_terminal
from tony.jobs.job_follower import Viewer
from tony.jobs.log_reader import LogLine
from tony.model.job_report import JobReport


class PlainView:
    """Lines with the time in front, as they come: for files, pipes, and terminals that cannot do more.

    Args:
        stream: where they go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._story = StatusChanges()
        self._logs = LogPrinter(stream)

    def saw(self, report: JobReport) -> None:
        """Tells what is new."""
        for line in self._story.tell(report, clock.monotonic()):
            self._say(line)

    def opened(self, session: int, reason: str) -> None:
        """Tells it."""
        self._say(f"session {session} begins: {reason or 'no reason is known'}")

    def printed(self, lines: Sequence[LogLine]) -> None:
        """Prints programs' output."""
        self._logs.print(lines, stamp())

    def noticed(self, text: str) -> None:
        """Tells it."""
        self._say(text)

    def _say(self, text: str) -> None:
        say(f"{stamp()}{text}", to=self._stream)
        self._stream.flush()


def stamp() -> str:
    """The time of day, as lines begin with it."""
    return time.strftime("%H:%M:%S ")


def view_for(stream: TextIO) -> AbstractContextManager[Viewer]:
    """The view that suits a stream. Use it as a context manager: a live table is taken away at the end."""
    if is_terminal(stream) and knows_sequences():
        from tony.cli.live_status import LiveView

        return LiveView(stream)
    plain: AbstractContextManager[Any] = nullcontext(PlainView(stream))
    return plain
