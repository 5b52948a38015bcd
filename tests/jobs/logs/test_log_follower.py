"""The output of living programs, as it comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.jobs.fake_am import recorded, write_log
from tests.jobs.logs.test_log_reader import OUT, append, texts
from tony import clock
from tony.jobs.logs.log_reader import PARTIAL_LINE_SECONDS, LiveReader, LogTail
from tony.jobs.logs.log_selection import Selection
from tony.model.layout import Home, JobFolder


@pytest.fixture
def folder(home: Home) -> JobFolder:
    return recorded(home)[0]


async def printed(tail: LogTail, count: int) -> list[str]:
    said: list[str] = []
    changed = None
    while len(said) < count:
        said += [f"{line.name.task} {line.text}" for line in tail.read_new_lines(changed)]
        if len(said) < count:
            changed = await tail.wait_change()
    return said


async def test_lines_come_as_they_are_printed(folder: JobFolder) -> None:
    """What was there before, what is written on, and files that are new."""
    write_log(folder, "worker-0.s1.t1.out", "a\n")
    with LogTail(folder.logs, Selection()) as tail:
        assert await printed(tail, 1) == ["worker:0 a"]
        waiting = asyncio.ensure_future(printed(tail, 2))
        await asyncio.sleep(0)
        write_log(folder, "worker-0.s1.t1.out", "b\n")
        write_log(folder, "worker-1.s1.t1.err", "c\n")
        assert sorted(await waiting) == ["worker:0 b", "worker:1 c"]


async def test_only_selected_logs_are_followed(folder: JobFolder) -> None:
    """Changes of other files are ignored."""
    with LogTail(folder.logs, Selection(tasks={"worker:1"})) as tail:
        write_log(folder, "worker-0.s1.t1.out", "a\n")
        write_log(folder, "worker-0.executor.log", "b\n")
        write_log(folder, "worker-1.s1.t1.out", "c\n")
        assert await printed(tail, 1) == ["worker:1 c"]


async def test_a_new_try_brings_out_the_last_words(folder: JobFolder) -> None:
    """A line without an end is complete once the next try of its task prints."""
    with LogTail(folder.logs, Selection()) as tail:
        write_log(folder, "worker-0.s1.t1.out", "last words")
        assert list(tail.read_new_lines()) == []
        write_log(folder, "worker-0.s2.t1.out", "again\n")
        assert await printed(tail, 2) == ["worker:0 last words", "worker:0 again"]


async def test_draining_gives_the_rest(folder: JobFolder) -> None:
    """Lines without an end, and files that no event announced."""
    with LogTail(folder.logs, Selection()) as tail:
        write_log(folder, "worker-0.s1.t1.out", "a\nb")
        assert [line.text for line in tail.read_new_lines()] == ["a"]
        write_log(folder, "worker-1.s1.t1.out", "c")
        assert [line.text for line in tail.drain()] == ["b", "c"]
        assert list(tail.drain()) == []


async def test_beginning_with_the_last_lines(folder: JobFolder) -> None:
    """Only files that were there are cut: what is new comes whole."""
    write_log(folder, "worker-0.s1.t1.out", "a\nb\nc\n")
    with LogTail(folder.logs, Selection(), keep=1) as tail:
        assert await printed(tail, 1) == ["worker:0 c"]
        write_log(folder, "worker-0.s1.t1.out", "d\n")
        write_log(folder, "worker-0.s2.t1.out", "e\nf\n")
        assert await printed(tail, 3) == ["worker:0 d", "worker:0 e", "worker:0 f"]


async def test_lines_without_an_end_wait_for_it_one_by_one(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends its line meanwhile is not due any longer; who does not is due once."""
    monkeypatch.setattr("tony.jobs.logs.log_reader.PARTIAL_LINE_SECONDS", 0.0)
    with LogTail(folder.logs, Selection(), live=True) as tail:
        for index in range(3):
            write_log(folder, f"worker-{index}.s1.t1.out", "half")
        assert list(tail.read_new_lines()) == []
        write_log(folder, "worker-1.s1.t1.out", " done\n")
        assert [line.text for line in tail.read_new_lines()] == ["half done"]
        assert tail.due is not None
        assert [line.name.task for line in tail.take_due_lines()] == ["worker:0", "worker:2"]
        assert [tail.due] == [None]
        assert list(tail.take_due_lines()) == []
        write_log(folder, "worker-0.s1.t1.out", " of it")
        assert list(tail.read_new_lines()) == []
        assert [line.text for line in tail.take_due_lines()] == [" of it"]


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
