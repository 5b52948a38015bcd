"""Rows at the bottom of a terminal that are erased and redrawn in one write, together with new lines above them.

Each row is cut to the width of the terminal; if the window has become narrower since, the terminal has wrapped it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from tony.cli.terminal.terminal_text import count_columns, find_size


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
