"""A terminal's screen: what a person sees of what is written to it."""

from __future__ import annotations

import io
import re
from typing import cast

_STEP = re.compile(r"\x1b\[(\d*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        return cast(io.BytesIO, self.buffer).getvalue().decode()


class Screen:
    """Rows of a screen and the scrolled ones above it. Knows the few sequences that we use, and refuses others."""

    def __init__(self, columns: int, lines: int = 24) -> None:
        self.columns, self.lines = columns, lines
        self._rows: list[str] = [""]
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        """All rows, without the empty ones at the end."""
        rows = [row.rstrip() for row in self._rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def feed(self, text: str) -> None:
        end = 0
        for step in _STEP.finditer(text):
            assert step.start() == end, f"a sequence we do not use: {text[end : end + 10]!r}"
            end = step.end()
            number, kind, char = step.groups()
            if char is None:
                self._obey(kind, int(number or 0))
            else:
                self._put(char)
        assert end == len(text), f"a sequence we do not use: {text[end : end + 10]!r}"

    def narrow(self, columns: int) -> None:
        """The window is made narrower: rows that do not fit are folded."""
        folded: list[str] = []
        for number, row in enumerate(self._rows):
            pieces = [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
            if number == self._row:
                self._row, self._column = len(folded) + len(pieces) - 1, len(pieces[-1])
            folded += pieces
        self.columns, self._rows = columns, folded

    def _obey(self, kind: str, number: int) -> None:
        if kind == "A":
            top = max(0, len(self._rows) - self.lines)
            self._row = max(top, self._row - number)
        elif kind == "J":
            self._rows = [*self._rows[: self._row], self._rows[self._row][: self._column]]
        else:
            assert kind == "m", f"a sequence we do not use: {kind}"

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._down()
            self._column = 0
        else:
            assert char.isprintable(), ascii(char)
            if self._column == self.columns:
                self._down()
                self._column = 0
            row = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = row[: self._column] + char + row[self._column + 1 :]
            self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")


def shown(terminal: Terminal, columns: int, lines: int = 24) -> list[str]:
    """What a screen of that size shows, scrolled rows included."""
    screen = Screen(columns, lines)
    screen.feed(terminal.text)
    return screen.rows
