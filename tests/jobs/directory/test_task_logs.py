"""Logs are read by offsets, over both halves of a rotated one; a search continues where the last one ended."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.jobs.directory.task_logs import LOG_PIECE, SearchText, TaskLogs
from tony.storage.stores.local_store import LocalStore

NAME = "worker-1.s2.t1.err"


@pytest.fixture
def logs(tmp_path: Path) -> TaskLogs:
    """Of worker:1: an older half and a newer one, and what must not be taken for its own."""
    (tmp_path / f"{NAME}.1").write_bytes(b"older one\nolder two\n")
    (tmp_path / NAME).write_bytes(b"newer \x1b[31mTHREE\x1b[0m\nnewer four")
    (tmp_path / "worker-1.s1.t1.out").write_bytes(b"")
    (tmp_path / "worker-10.s1.t1.out").write_bytes(b"of another task")
    (tmp_path / "worker-1.executor.log").write_bytes(b"our own words")
    (tmp_path / "worker-1.s3.t1.out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "worker-1.s4.t1.out")
    return TaskLogs(LocalStore(tmp_path), "", "worker:1")


def test_the_log_files_of_a_task(logs: TaskLogs) -> None:
    """Plain files of this task's programs, rotated halves as one, in order."""
    files = asyncio.run(logs.files())
    assert [("worker-1.s1.t1.out", 0), (NAME, 51)] == [(file.name, file.size) for file in files]


@pytest.mark.parametrize(
    ("offset", "most", "data", "start"),
    [
        (0, 10, b"older one\n", 0),
        (10, 100, b"older two\nnewer \x1b[31mTHREE\x1b[0m\nnewer four", 10),
        (18, 8, b"o\nnewer ", 18),
        (-4, 100, b"four", 47),
        (1000, 10, b"", 51),
        (-1000, 5, b"older", 0),
    ],
)
def test_pieces(logs: TaskLogs, offset: int, most: int, data: bytes, start: int) -> None:
    """A piece from anywhere, and where it begins."""
    piece = asyncio.run(logs.read(NAME, offset, most))
    assert (data, start, 51) == (piece.data, piece.offset, piece.size)


async def test_search(logs: TaskLogs) -> None:
    """Forwards and backwards, whatever the case, colours or none; and that there is nothing more is said."""
    expected = [(0, False), (10, False), (20, False), (10, False), (0, False), (20, False), (None, True), (None, True)]
    found = [
        await logs.find(NAME, "OLDER", 0),
        await logs.find(NAME, "older", 10),
        await logs.find(NAME, "er three", 0),
        await logs.find(NAME, "older", 51, backwards=True),
        await logs.find(NAME, "older", 10, backwards=True),
        await logs.find(NAME, "three", 51, backwards=True),
        await logs.find(NAME, "nothing", 0),
        await logs.find(NAME, "", 0),
    ]
    assert expected == [(each.line, each.over) for each in found]


@given(
    parts=st.lists(
        st.sampled_from([b"a", b"B", b"ab", b"\x1b[31m", b"\x1b[0m", b"\x1b[", b"\x1b", b"\n"]), max_size=20
    ),
    text=st.text("abx", min_size=1, max_size=3),
    before=st.integers(0, 60),
)
def test_colours_stand_in_no_ones_way(parts: list[bytes], text: str, before: int) -> None:
    """Where a text begins is where a pattern finds it that passes over colours between any two letters."""
    block, sought = b"".join(parts), SearchText(text)
    letters = rb"(?:\x1b\[[0-9;:]{0,32}m)*".join(letter.encode() for letter in text)
    pattern = re.compile(rb"(?=" + letters + rb")", re.IGNORECASE)
    found = [match.start() for match in pattern.finditer(block)]
    assert sought.find_first(block) == (found[0] if found else -1)
    assert sought.find_last(block, before) == max((each for each in found if each < before), default=-1)


def test_a_search_reads_each_byte_once() -> None:
    """A regular expression would read each byte as often as the text is long, and block the server for minutes."""
    began = time.process_time()
    for block in (b"\x1b[m" + b"a" * (8 << 20), (b"a" + b"\x1b[m" * 10) * (8 << 15)):
        sought = SearchText("a" * 499 + "b")
        assert (sought.find_first(block), sought.find_last(block, len(block))) == (-1, -1)
    assert time.process_time() - began < 20


def test_a_search_of_a_long_log_continues(tmp_path: Path) -> None:
    """One search reads a part only, and says where to continue: in the end the line is found."""
    line = b"nothing of the kind\n"
    before = line * (100 * LOG_PIECE // len(line))
    (tmp_path / NAME).write_bytes(before + b"the needle\n" + line)
    logs = TaskLogs(LocalStore(tmp_path), "", "worker:1")

    async def search() -> tuple[int, int | None]:
        at = turns = 0
        while True:
            found = await logs.find(NAME, "NEEDLE", at)
            turns += 1
            if found.line is not None or found.over:
                return turns, found.line
            assert found.until > at
            at = found.until

    turns, where = asyncio.run(search())
    assert len(before) == where
    assert turns > 1


@pytest.mark.parametrize(
    "name", ["worker-10.s1.t1.out", f"{NAME}.1", "../secret", "worker-1.executor.log", "worker-1.s3.t1.out", "", "x\0y"]
)
def test_other_files_are_no_log_of_the_task(logs: TaskLogs, name: str) -> None:
    """Other tasks' logs, links and everything else."""
    with pytest.raises(LookupError):
        asyncio.run(logs.read(name, 0, 10))
