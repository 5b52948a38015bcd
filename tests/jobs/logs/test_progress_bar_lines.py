"""Partial lines: a live view shows progress bars and lines without an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.logs.test_log_reader import OUT, append, texts
from tony import clock
from tony.jobs.logs.progress_bar_lines import PARTIAL_LINE_SECONDS, LiveReader


def test_of_a_line_that_overwrites_itself_the_newest_state_is_read(tmp_path: Path) -> None:
    """States that only wipe it out are none; other lines are as ever."""
    append(tmp_path, b"a\r\n 25%|#\r 50%|##\n\r 75%\r    \r\n\n  b\n")
    assert texts(LiveReader(tmp_path, OUT).read()) == ["a", " 50%|##", " 75%", "", "  b"]


def test_a_bar_shows_before_its_line_has_an_end(tmp_path: Path) -> None:
    """Each time only its newest state; the end alone is no line."""
    reader = LiveReader(tmp_path, OUT)
    append(tmp_path, b"\r 25%\r 26%")
    assert texts(reader.read()) == []
    assert texts(reader.take()) == [" 26%"]
    assert texts(reader.take()) == []
    append(tmp_path, b"\r 27%\r100%")
    assert texts(reader.read()) == []
    assert texts(reader.take()) == ["100%"]
    append(tmp_path, b"\nnext\n\n")
    assert texts(reader.read()) == ["next", ""]


def test_a_prompt_shows_and_its_answer_is_a_line_of_its_own(tmp_path: Path) -> None:
    reader = LiveReader(tmp_path, OUT)
    append(tmp_path, b"loading ...")
    assert texts(reader.read()) == []
    assert texts(reader.take()) == ["loading ..."]
    append(tmp_path, b" done\nrest")
    assert texts(reader.read()) == [" done"]
    assert texts(reader.drain()) == ["rest"]


def test_the_age_of_an_unfinished_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From when its first byte was read, however often it grows; a line's end starts anew."""
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    reader = LiveReader(tmp_path, OUT)
    append(tmp_path, b"\r1")
    assert texts(reader.read()) == []
    now = 100.5
    append(tmp_path, b"\r2")
    assert texts(reader.read()) == []
    assert reader.due == 100.0 + PARTIAL_LINE_SECONDS
    append(tmp_path, b"\n\r3")
    assert texts(reader.read()) == ["2"]
    assert reader.due == 100.5 + PARTIAL_LINE_SECONDS
    assert texts(reader.take()) == ["3"]
    assert not reader.due


def test_wiping_alone_is_nothing(tmp_path: Path) -> None:
    """A bar that was taken away leaves no empty line while it waits."""
    reader = LiveReader(tmp_path, OUT)
    append(tmp_path, b"\r     \r")
    assert texts(reader.read()) == []
    assert texts(reader.take()) == []
