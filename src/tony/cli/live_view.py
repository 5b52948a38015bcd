"""The live table: how the job and its tasks stand now, below what programs print.

Output scrolls as on any terminal. The table stands below it, and is wiped and drawn again with whatever is written, in
one piece. A row of it is one of the screen, cut to its width; a window that was made narrower since has folded it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, TextIO

import click

from tony import clock
from tony.cli.live_table import live_table
from tony.cli.log_printer import LogPrinter
from tony.cli.output import colours
from tony.cli.story import Story
from tony.cli.text import safe, size_of, width
from tony.client.log_reader import Line
from tony.model.report import JobReport
from tony.model.states import TaskState

_COLOURS = {
    TaskState.RUNNING.value: "cyan",
    TaskState.SUCCEEDED.value: "green",
    TaskState.FAILED.value: "red",
    TaskState.LOST.value: "red",
}
_WORDS = re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b")
_DIM = "\x1b[2m{}\x1b[0m"


class LiveView:
    """Scrolling output with a table below it. A context manager: the table goes at the end, the output stays."""

    #: It wants to hear of a job also when nothing but time has passed.
    shows_ages = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._coloured = colours(stream)
        self._story = Story(failures=False)
        self._logs = LogPrinter(stream)
        self._rows: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw((), [])

    def saw(self, report: JobReport) -> None:
        """Draws the table anew; tells what is new above it."""
        lines = self._story.tell(report, clock.monotonic())
        size = size_of(self._stream)
        rows = live_table(report, clock.wall(), columns=size.columns - 1, rows=max(3, size.lines // 3))
        self._draw(map(self._dim, lines), rows[: max(1, size.lines - 1)])

    def opened(self, session: int, reason: str) -> None:
        """Tells it above the table."""
        self.noticed(f"session {session} begins: {reason or 'no reason is known'}")

    def printed(self, lines: Sequence[Line]) -> None:
        """Prints programs' output above the table."""
        self._draw(map(self._logs.text, lines), self._rows)

    def noticed(self, text: str) -> None:
        """Tells it above the table."""
        self._draw([self._dim(text)], self._rows)

    def _dim(self, text: str) -> str:
        return _DIM.format(safe(text)) if self._coloured else safe(text)

    def _draw(self, above: Iterable[str], rows: list[str]) -> None:
        """Wipes the table; writes lines in its place, and `rows` as the table below them."""
        wipe = self._wipe()
        self._rows = rows
        table = "\n".join(map(self._colour, rows))
        self._stream.write("".join([wipe, *(f"{line}\n" for line in above), table]))
        self._stream.flush()

    def _wipe(self) -> str:
        """From the end of the table's last row to the beginning of its first, and nothing below."""
        if not self._rows:
            return ""
        columns = size_of(self._stream).columns
        up = sum(max(1, -(-width(row) // columns)) for row in self._rows) - 1
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"

    def _colour(self, row: str) -> str:
        if not self._coloured:
            return row
        return _WORDS.sub(lambda match: click.style(match[0], fg=_COLOURS[match[0]]), row)
