"""The live table: how the job and its tasks stand now, below what programs print. The only place that loads `rich`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tony import clock
from tony.cli.live_table import live_table
from tony.cli.log_printer import LogPrinter
from tony.cli.story import Story
from tony.cli.text import safe
from tony.client.log_reader import Line
from tony.model.report import JobReport
from tony.model.states import TaskState

_COLOURS = {
    "cyan": (TaskState.RUNNING,),
    "green": (TaskState.SUCCEEDED,),
    "red": (TaskState.FAILED, TaskState.LOST),
}


class LiveView:
    """Scrolling output with a table below it. A context manager: the table goes at the end, the output stays."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._story = Story(failures=False)
        self._logs = LogPrinter(stream)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def saw(self, report: JobReport) -> None:
        """Draws the table anew; tells what is new above it."""
        lines = self._story.tell(report, clock.monotonic())
        size = self._console.size
        rows = live_table(report, clock.wall(), columns=size.width - 1, rows=max(3, size.height // 3))
        self._live.update(_coloured(rows))
        if lines:
            self._above(lines)
        self._live.refresh()

    def opened(self, session: int, reason: str) -> None:
        """Tells it above the table."""
        self.noticed(f"session {session} begins: {reason or 'no reason is known'}")

    def printed(self, lines: Sequence[Line]) -> None:
        """Prints programs' output above the table."""
        text = "\n".join(self._logs.text(line) for line in lines)
        self._console.print(Text.from_ansi(text), soft_wrap=True)

    def noticed(self, text: str) -> None:
        """Tells it above the table."""
        self._above([text])

    def _above(self, lines: Sequence[str]) -> None:
        self._console.print(Text("\n".join(safe(line) for line in lines), style="dim"), soft_wrap=True)


def _coloured(rows: Sequence[str]) -> Text:
    text = Text("\n".join(rows))
    for colour, states in _COLOURS.items():
        text.highlight_words([state.value for state in states], style=colour)
    return text
