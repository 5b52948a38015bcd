"""Other people's text does not steer a terminal, and ours fits it."""

from __future__ import annotations

import fcntl
import io
import pty
import struct
import termios
import time
import tracemalloc

import pytest

from tony.cli.terminal.terminal_text import (
    count_columns,
    cut,
    escape_line,
    find_columns,
    find_size,
    format_age,
    format_clock_time,
    format_table,
)
from tony.control_characters import escape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain [bold]text[/]", "plain [bold]text[/]"),
        ("ä 漢 🎉", "ä 漢 🎉"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert escape(text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[1;38:5:9mred", "\x1b[1;38:5:9mred\x1b[0m"),
        ("a\x1b[2Jb\x1b[10;10Hc", "abc"),
        ("a\x9b2Jb", "ab"),
        ("\x1b]0;title\x07a", "a"),
        ("\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\", "a"),
        ("\x1bPq~\x1b\\a", "a"),
        ("\x1b(0a\x1bc", "a"),
        ("a\x1b", "a\\x1b"),
        ("10%\r20%\r30%", "30%"),
        ("30%\r", "30%"),
        ("a\tb", "a    b"),
        ("a\bb", "a\\x08b"),
    ],
)
def test_a_log_line_keeps_its_colours_only(line: str, expected: str) -> None:
    """Everything else that steers is dropped, or written out."""
    assert escape_line(line) == expected


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("ä", 1), ("漢字", 4), ("e\u0301", 1), ("🎉", 2), ("", 0), ("x\u200dy", 2), ("\u2764\ufe0f", 1)],
)
def test_columns_are_counted(text: str, columns: int) -> None:
    """Wide characters take two, accents and joiners none."""
    assert count_columns(text) == columns


def test_long_text_is_cut() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"
    assert cut("漢字漢字", 4) == "漢…"
    assert cut("abc", 0) == ""


ROWS = [("TASK", "HOST", "NOTE"), ("worker:0", "node-1", "a long note about it"), ("ps:0", "-", "")]


def test_cells_are_aligned() -> None:
    """No blanks at the end of a line."""
    assert format_table(ROWS) == [
        "TASK      HOST    NOTE",
        "worker:0  node-1  a long note about it",
        "ps:0      -",
    ]
    assert format_table([]) == []


def test_a_narrow_table_drops_columns_and_cuts_the_last() -> None:
    assert format_table(ROWS, 30, [1]) == ["TASK      NOTE", "worker:0  a long note about it", "ps:0"]
    assert format_table(ROWS, 16, [1]) == ["TASK      NOTE", "worker:0  a lon…", "ps:0"]


def test_one_long_cell_does_not_make_all_rows_long() -> None:
    """A thousand rows beside a cell of a megabyte are a thousand rows."""
    rows = [("NOTE", "TASK"), ("漢" * 1_000_000, "worker:0"), *[("", "x")] * 1000]
    assert [20, 19, 20] == [count_columns(line) for line in format_table(rows, 20)[:3]]
    tracemalloc.start()
    format_table(rows, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_only_a_terminal_has_a_width() -> None:
    """Nothing is cut in a file."""
    assert find_columns(io.StringIO()) is None
    closed = io.StringIO()
    closed.close()
    assert find_columns(closed) is None


def test_times_are_for_people() -> None:
    now = time.time()
    assert format_clock_time(now) == time.strftime("%H:%M:%S", time.localtime(now))
    assert format_clock_time(0.0).startswith("19")
    assert format_clock_time(None) == "-"
    assert format_age(now - 12, now) == "12 s"
    assert format_age(now + 12, now) == "0 s"
    assert format_age(None, now) == "-"


def test_a_terminals_size_is_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment takes precedence; a terminal without a size, or no terminal at all, has 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
    ours, theirs = pty.openpty()
    with open(ours, "rb"), open(theirs, "w", encoding="utf-8") as terminal:
        assert find_size(terminal) == (80, 24)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 40, 0, 0))
        assert find_size(terminal) == (40, 50)
        monkeypatch.setenv("COLUMNS", "33")
        monkeypatch.setenv("LINES", "many")
        assert find_size(terminal) == (33, 50)
    assert find_size(io.StringIO()) == (33, 24)
