"""Rows at the bottom of a terminal, which are erased and redrawn below new output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TextIO

import click

from tony.cli.terminal.output import has_colours
from tony.cli.terminal.terminal_text import count_columns, find_size
from tony.model.states import TaskState

_COLOURS = {
    TaskState.RUNNING.value: "cyan",
    TaskState.SUCCEEDED.value: "green",
    TaskState.FAILED.value: "red",
    TaskState.LOST.value: "red",
    "stalled": "red",
}
_WORDS = re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b")


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
        self._coloured = has_colours(stream)

    def draw(self, rows: list[str], above: Iterable[str] = ()) -> None:
        """Erase the rows; write the lines `above` in their place, and `rows` below them, their states coloured."""
        erase = self._erase_sequence()
        self.rows = rows
        table = "\n".join(rows)
        if self._coloured:
            table = _WORDS.sub(lambda match: click.style(match[0], fg=_COLOURS[match[0]]), table)
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
