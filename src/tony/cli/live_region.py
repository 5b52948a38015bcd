"""Rows at the bottom of a terminal that are wiped and drawn again, with what is written above them, in one piece.

A row of it is one of the screen, cut to its width; a window that was made narrower since has folded it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from tony.cli.terminal_text import size_of, width


class LiveRegion:
    """What stands there now.

    Args:
        stream: a terminal that knows sequences.

    Attributes:
        rows: as they were drawn last, without colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rows: list[str] = []
        self._stream = stream

    def draw(self, rows: list[str], above: Iterable[str] = (), paint: Callable[[str], str] = lambda row: row) -> None:
        """Wipes what stands there; writes lines in its place, and `rows` below them.

        Args:
            paint: gives a row its colours.
        """
        wipe = self._wipe()
        self.rows = rows
        table = "\n".join(map(paint, rows))
        self._stream.write("".join([wipe, *(f"{line}\n" for line in above), table]))
        self._stream.flush()

    def leave(self) -> None:
        """It stays as it is; what is written next begins below it."""
        if self.rows:
            self._stream.write("\n")
            self._stream.flush()
        self.rows = []

    def _wipe(self) -> str:
        """From the end of the last row to the beginning of the first, and nothing below."""
        if not self.rows:
            return ""
        columns = size_of(self._stream).columns
        up = sum(max(1, -(-width(row) // columns)) for row in self.rows) - 1
        return f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"
