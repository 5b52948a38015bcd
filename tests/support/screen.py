"""The screen of a terminal: what a person sees of the text that was written to it."""

from __future__ import annotations

import re

from tony.cli.terminal.terminal_text import count_columns

_STEP = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Screen:
    """All rows, those that scrolled away included. It knows the few escape sequences in use, and refuses others.

    Args:
        height: rows that can be reached; above them text has scrolled away.
    """

    def __init__(self, columns: int, height: int = 24) -> None:
        self.columns, self.height = columns, height
        self._rows: list[str] = [""]
        self._wrapped: set[int] = set()  # rows that begin because the one before was full
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        """All rows, without blanks at their ends and without empty ones at the end."""
        rows = [row.rstrip() for row in self._rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def lines(self) -> list[str]:
        """The text, with wrapped rows joined."""
        lines: list[str] = []
        for number, row in enumerate(self._rows):
            if number in self._wrapped and lines:
                lines[-1] += row
            else:
                lines.append(row)
        return [line.rstrip() for line in lines]

    def feed(self, text: str) -> None:
        """Show text as a terminal does."""
        end = 0
        for step in _STEP.finditer(text):
            assert step.start() == end, f"a sequence that is not in use: {text[end : end + 10]!r}"
            end = step.end()
            numbers, kind, char = step.groups()
            if char is None:
                self._obey(kind, int(numbers.split(";")[0] or 0))
            else:
                self._put(char)
        assert end == len(text), f"a sequence that is not in use: {text[end : end + 10]!r}"

    def narrow(self, columns: int) -> None:
        """Make the window narrower: rows that do not fit are folded."""
        folded: list[str] = []
        for number, row in enumerate(self._rows):
            pieces = [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
            if number == self._row:
                self._row, self._column = len(folded) + len(pieces) - 1, len(pieces[-1])
            folded += pieces
        self.columns, self._rows = columns, folded

    def _obey(self, kind: str, number: int) -> None:
        match kind:
            case "A":
                self._row = max(0, len(self._rows) - self.height, self._row - max(1, number))
            case "J":
                self._rows = [*self._rows[: self._row], self._rows[self._row][: self._column]]
                self._wrapped = {row for row in self._wrapped if row <= self._row}
            case "K":
                self._rows[self._row] = self._rows[self._row][: self._column] if number == 0 else ""
            case _:
                assert kind in "mhl", f"a sequence that is not in use: {kind}"

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._go_down(wrapped=False)
        else:
            assert char.isprintable() or count_columns(char) == 0, ascii(char)
            if self._column + count_columns(char) > self.columns:
                self._go_down(wrapped=True)
            row = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = row[: self._column] + char + row[self._column + 1 :]
            self._column += count_columns(char)

    def _go_down(self, *, wrapped: bool) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._rows):
            self._rows.append("")
        (self._wrapped.add if wrapped else self._wrapped.discard)(self._row)
