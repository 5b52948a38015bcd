"""Lines of several processes of one task: whole, labelled with the local rank, and none lost."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tony.executor.output import rank_output
from tony.executor.output.output_capture import Output
from tony.executor.output.rank_output import RankOutput
from tony.executor.output.writer_thread import WriterThread
from tony.model.masking import SecretMask

Writes = Callable[[list[int]], Awaitable[None]]


def logged(folder: Path, count: int, write: Writes, mask: SecretMask | None = None) -> bytes:
    """Return what is in the log after some processes have written to their standard output."""

    async def run() -> None:
        pen = WriterThread()
        output = Output(folder, "t", 1 << 30, pen, lambda: None, mask=mask)
        ranks = RankOutput(output, count)
        ends = [os.dup(ranks.get_write_ends(rank)[0]) for rank in range(count)]
        ranks.begin()
        output.begin()
        await write(ends)
        for end in ends:
            os.close(end)
        await output.wait_ended(60)
        ranks.close()

    asyncio.run(run())
    return (folder / "t.out").read_bytes()


def test_a_secret_in_pieces_is_masked(tmp_path: Path) -> None:
    """Another process prints in between, whose label would part it."""

    async def write(ends: list[int]) -> None:
        file = tmp_path / "t.out"
        os.write(ends[1], b"password correct-horse-")
        await wait_until(lambda: file.exists() and b"password" in file.read_bytes())
        os.write(ends[0], b"other\n")
        await wait_until(lambda: b"other" in file.read_bytes())
        os.write(ends[1], b"battery-9 is used\n")

    text = logged(tmp_path, 2, write, SecretMask(["correct-horse-battery-9"]))
    assert b"is used" in text
    assert not any(part in text for part in (b"correct", b"horse", b"battery"))


def test_without_pipes_for_each_the_output_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own pipe still waits for room, so no program loses what it prints."""
    output = Output(tmp_path, "t", 1 << 20, WriterThread(), lambda: None)
    before = len(os.listdir("/proc/self/fd"))

    def refuse(flags: int) -> tuple[int, int]:
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pipe2", refuse)
    with pytest.raises(OSError, match="too many"):
        asyncio.run(make(output))
    assert os.get_blocking(output.out.writing)
    assert not output.out.is_labelled
    assert len(os.listdir("/proc/self/fd")) == before


async def make(output: Output) -> None:
    RankOutput(output, 2)


def test_each_line_begins_with_its_rank(tmp_path: Path) -> None:
    """Also an empty one, one without an end, and those of a progress bar."""

    async def write(ends: list[int]) -> None:
        os.write(ends[0], b"one\n\ntwo\r\n")
        os.write(ends[1], b"\r10%\r20%\rlast")

    text = logged(tmp_path, 2, write)
    assert set(text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) == {
        *(b"[0] one", b"[0] ", b"[0] two"),
        *(b"[1] ", b"[1] 10%", b"[1] 20%", b"[1] last"),
    } | ({b""} if text.endswith(b"\n") else set())


def test_a_line_in_pieces_stays_whole(tmp_path: Path) -> None:
    """Its beginning is shown after a moment; what others print then begins on a line of its own."""

    async def write(ends: list[int]) -> None:
        file = tmp_path / "t.out"
        os.write(ends[0], b"Downloading ")
        await wait_until(lambda: file.exists() and b"Downloading" in file.read_bytes())
        os.write(ends[0], b"done\nnext ")
        await wait_until(lambda: b"next" in file.read_bytes())
        os.write(ends[1], b"other\n")
        await wait_until(lambda: b"other" in file.read_bytes())

    assert logged(tmp_path, 2, write) == b"[0] Downloading done\n[0] next \n[1] other\n"


def test_much_output_is_not_lost_and_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any of the pipes holds, from all processes at once."""
    monkeypatch.setattr(rank_output, "_MAX_PENDING_BYTES", 1 << 12)
    count, lines = 3, 50_000

    async def write(ends: list[int]) -> None:
        def print_lines(end: int) -> None:
            with os.fdopen(os.dup(end), "wb") as file:
                file.writelines(b"line %d\n" % number for number in range(lines))

        await asyncio.gather(*(asyncio.to_thread(print_lines, end) for end in ends))

    found = Counter(logged(tmp_path, count, write).splitlines())
    assert found == {b"[%d] line %d" % (rank, number): 1 for rank in range(count) for number in range(lines)}


async def test_too_few_open_files_leave_none_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(tmp_path, "t", 100, WriterThread(), lambda: None)
    before = set(os.listdir("/proc/self/fd"))
    made: list[int] = []
    pipe2 = os.pipe2

    def few(flags: int) -> tuple[int, int]:
        if len(made) >= 3:
            raise OSError(24, "Too many open files")
        made.append(0)
        return pipe2(flags)

    monkeypatch.setattr(os, "pipe2", few)
    with pytest.raises(OSError, match="Too many open files"):
        RankOutput(output, 2)
    assert set(os.listdir("/proc/self/fd")) == before
    output.close()
