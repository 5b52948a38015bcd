"""A terminal of a given width, as a person sees it: what a command leaves on it, and what it showed meanwhile."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tony.cli.terminal.terminal_text import width

#: Escape sequences that we know: moving up, erasing, and those that only colour or hide the cursor.
_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


@dataclass
class Screen:
    """All lines that ever were, those that scrolled away included.

    Attributes:
        rows: what stands on each, without blanks at its end.
        wrapped: rows that only begin because the one before was full.
    """

    columns: int
    rows: list[str] = field(default_factory=lambda: [""])
    wrapped: set[int] = field(default_factory=set)
    row: int = 0
    column: int = 0

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found:
                self._obey(found[2], found[3])
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def lines(self) -> list[str]:
        """What can be read now, wrapped lines put together again."""
        found: list[str] = []
        for number, row in enumerate(self.rows):
            if number in self.wrapped and found:
                found[-1] += row
            else:
                found.append(row)
        return [line.rstrip() for line in found]

    def _put(self, character: str) -> None:
        if character == "\n":
            self._go_down(wrapped=False)
        elif character == "\r":
            self.column = 0
        elif character == "\x1b":
            raise AssertionError("an escape sequence that nobody here knows")
        elif character >= " ":
            size = width(character)
            if self.column + size > self.columns:
                self._go_down(wrapped=True)
                self.column = 0
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += size

    def _go_down(self, *, wrapped: bool) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
        (self.wrapped.add if wrapped else self.wrapped.discard)(self.row)

    def _obey(self, numbers: str, what: str) -> None:
        count = int(numbers.split(";")[0] or 0)
        if what == "A":
            self.row = max(0, self.row - max(1, count))
        elif what == "K":
            self.rows[self.row] = self.rows[self.row][: self.column] if count == 0 else ""
        elif what == "J" and count == 0:
            self.rows[self.row] = self.rows[self.row][: self.column]
            for number in range(self.row + 1, len(self.rows)):
                self.rows[number] = ""
                self.wrapped.discard(number)
        elif what not in "mhl":
            raise AssertionError(f"ESC[{numbers}{what} is not known here")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command showed.

    Attributes:
        raw: everything, escape sequences included.
    """

    code: int
    raw: str
    screen: Screen

    @property
    def lines(self) -> list[str]:
        """What can be read in the end."""
        return self.screen.lines()

    @property
    def rows(self) -> list[str]:
        """Each row of the terminal in the end."""
        return [row.rstrip() for row in self.screen.rows]


def show(
    argv: Sequence[str], columns: int, env: Mapping[str, str], folder: Path, terminal: str = "xterm-256color"
) -> Shown:
    """Runs a command on a terminal of its own, to its end."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        argv,
        env={**env, "TERM": terminal},
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:  # that is how the end of a terminal's last user shows
        pass
    finally:
        os.close(ours)
        code = process.wait(60)
    raw = b"".join(pieces).decode()
    screen = Screen(columns or 80)
    screen.feed(raw)
    return Shown(code, raw, screen)
