"""A terminal that keeps what is written to it."""

from __future__ import annotations

import io
from typing import cast

from tests.support.screen import Screen


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


def shown(terminal: Terminal, columns: int, lines: int = 24) -> list[str]:
    """What a screen of that size shows, scrolled rows included."""
    screen = Screen(columns, lines)
    screen.feed(terminal.text)
    return screen.rows
