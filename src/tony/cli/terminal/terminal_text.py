"""Text for a terminal: makes log lines safe, and fits text to the width."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from tony.control_characters import escape
from tony.units import format_duration

#: Escape sequences: colours (kept in log lines), other control sequences, strings such as a window title, the rest.
_SEQUENCE = re.compile(
    "\x1b\\[[0-9;:]*m|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]"
)
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
#: Width that the last cell of a row keeps before another column is dropped.
_MIN_LAST_COLUMNS = 20
_RESET = "\x1b[0m"
#: Rows that a sentence may take.
_MAX_SENTENCE_ROWS = 3


def drop_colours(text: str) -> str:
    """Return a line of output without its colour sequences."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def escape_line(text: str) -> str:
    """Return a line of output that is safe for a terminal: keeps colours, drops other control sequences.

    A progress bar that overwrites itself is reduced to its last state.
    """
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    coloured = "\x1b" in text or "\x9b" in text
    if coloured:
        text = _SEQUENCE.sub(lambda match: match[0] if _COLOUR.fullmatch(match[0]) else "", text)
    pieces = _COLOUR.split(text)
    colours = [*_COLOUR.findall(text), ""]
    text = "".join(escape(piece.replace("\t", "    ")) + colour for piece, colour in zip(pieces, colours, strict=True))
    return text + _RESET if len(colours) > 1 else text


def count_columns(text: str) -> int:
    """Return the number of columns that text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_count_char_columns, text))


def _count_char_columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Cut text to a number of columns; it ends in `…` if something is missing."""
    taken, end = 0, None
    for number, char in enumerate(text):  # stops early in a long text
        taken += _count_char_columns(char)
        if taken >= columns and end is None:
            end = number
        if taken > columns:
            return f"{text[:end]}…" if columns > 0 else ""
    return text


def wrap_sentence(text: str, columns: int) -> list[str]:
    """Return a sentence in a few rows."""
    rows = textwrap.wrap(text, max(1, columns), max_lines=_MAX_SENTENCE_ROWS, placeholder="…", break_on_hyphens=False)
    return [cut(row, columns) for row in rows]


def find_columns(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal of a stream; None if it is no terminal: then nothing is cut."""
    stream = sys.stdout if stream is None else stream
    return find_size(stream).columns if is_terminal(stream) else None


def find_size(stream: TextIO) -> os.terminal_size:
    """Return the size of the terminal of a stream: COLUMNS and LINES, else its own, else 80 by 24."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        found = os.terminal_size((0, 0))
    variables = (os.environ.get("COLUMNS", ""), os.environ.get("LINES", ""))
    columns, lines = (int(word) if word.isascii() and word.isdigit() else 0 for word in variables)
    return os.terminal_size((columns or found.columns or 80, lines or found.lines or 24))


def knows_unicode(stream: TextIO) -> bool:
    """Return True if the encoding of a stream has the characters used for drawing."""
    try:
        "█▁·◆".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    """Return True if the stream is a terminal; False if it is closed."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def format_table(rows: Sequence[Sequence[str]], columns: int | None = None, drop: Sequence[int] = ()) -> list[str]:
    """Return rows as lines with aligned cells. The first row is the heading.

    Args:
        columns: the width limit of a line; None for no limit. The last cell of a row is cut first.
        drop: indexes of the columns that may be dropped if there is no room, in this order.
    """
    if not rows:
        return []
    if columns is not None:  # a cell that will be cut must not widen all other rows
        rows = [[cut(cell, columns + 1) for cell in row] for row in rows]
    kept = list(range(len(rows[0])))
    widths = [max(count_columns(row[i]) for row in rows) for i in kept]
    for candidate in drop:
        if (
            columns is None
            or sum(min(widths[i], _MIN_LAST_COLUMNS) if i == kept[-1] else widths[i] + 2 for i in kept) <= columns
        ):
            break
        kept.remove(candidate)
    lines = ["  ".join(row[i] + " " * (widths[i] - count_columns(row[i])) for i in kept).rstrip() for row in rows]
    return lines if columns is None else [cut(line, columns) for line in lines]


def format_clock_time(seconds: float | None) -> str:
    """Format a wall-clock time: `12:03:04` today, else with its date; `-` for None."""
    if seconds is None:
        return "-"
    try:
        then = time.localtime(seconds)
    except (OverflowError, ValueError, OSError):  # out of range, in a damaged job directory
        return "?"
    today = time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)


def format_age(seconds: float | None, now: float) -> str:
    """Format how long ago a wall-clock time was: `12 s`; `-` for None."""
    return "-" if seconds is None else format_duration(max(0.0, now - seconds))
