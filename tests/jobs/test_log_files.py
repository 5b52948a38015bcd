"""Reading and following logs loses nothing and doubles nothing, whatever the writer does meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.fake_am import recorded, write_log
from tony import clock
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_lines import MAX_LINE_BYTES, LogLine
from tony.jobs.log_reader import LogReader, open_readers
from tony.jobs.log_tail import PARTIAL_LINE_SECONDS, LiveReader, LogTail
from tony.model.log_name import LogName
from tony.model.state_directory import Home, JobFolder

OUT = LogName("worker", 0, 1, 1, "out")
FILE = "worker-0.s1.t1.out"


def texts(lines: Iterable[LogLine]) -> list[str]:
    return [line.text for line in lines]


def append(folder: Path, data: bytes, file: str = FILE) -> None:
    with (folder / file).open("ab") as stream:
        stream.write(data)


def rotate(folder: Path, file: str = FILE) -> None:
    """As an executor does when a file is full."""
    (folder / file).rename(folder / f"{file}.1")
    (folder / file).touch()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (FILE, OUT),
        (f"{FILE}.1", OUT),
        ("my-role-1-12.s3.t2.err", LogName("my-role-1", 12, 3, 2, "err")),
        ("worker-0.executor.log", None),
        ("worker-0.s1.t1.out.2", None),
        ("worker-0.s1.t1.out.1.1", None),
        ("worker-x.s1.t1.out", None),
        ("0-0.s1.t1.out", None),
        ("worker-0.s1.t1.out\n", None),
    ],
)
def test_a_log_name_has_its_task_and_stream(file: str, expected: LogName | None) -> None:
    """Anything else is no log of a task's program."""
    assert LogName.parse(file) == expected
    assert expected is None or (file.removesuffix(".1"), f"{expected.role}:{expected.index}") == (
        expected.file,
        expected.task,
    )


def test_finding_selects_and_sorts(tmp_path: Path) -> None:
    """By role, index (as a number), session, try; output before errors; a rotated file is its stream's."""
    for file in (
        "worker-10.s1.t1.out",
        "worker-2.s2.t1.out",
        "worker-2.s1.t1.err",
        "worker-2.s1.t1.out",
        "worker-2.s1.t1.out.1",
        "chief-0.s1.t1.out",
        "chief-0.executor.log",
    ):
        (tmp_path / file).touch()
    assert [name.file for name in find_log_files(tmp_path, Selection())] == [
        "chief-0.s1.t1.out",
        "worker-2.s1.t1.out",
        "worker-2.s1.t1.err",
        "worker-2.s2.t1.out",
        "worker-10.s1.t1.out",
    ]
    some = Selection(tasks={"worker:2"}, streams={"out"}, session=2)
    assert [name.file for name in find_log_files(tmp_path, some)] == ["worker-2.s2.t1.out"]
    assert find_log_files(tmp_path / "nowhere", Selection()) == []


def test_reading_continues_at_its_offset(tmp_path: Path) -> None:
    """A line is returned once it has an end."""
    reader = LogReader(tmp_path, OUT)
    assert texts(reader.read()) == []
    append(tmp_path, b"one\ntw")
    assert texts(reader.read()) == ["one"]
    append(tmp_path, b"o\r\n\nthr")
    assert texts(reader.read()) == ["two", ""]
    assert texts(reader.drain()) == ["thr"]
    assert texts(reader.drain()) == []


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """The bytes themselves are kept beside it."""
    append(tmp_path, b"\xff\xc3\xa4\n")
    assert [(line.data, line.text) for line in LogReader(tmp_path, OUT).read()] == [(b"\xff\xc3\xa4", "\ufffdä")]


def test_a_line_without_end_is_returned_in_pieces(tmp_path: Path) -> None:
    """It must not fill our memory."""
    append(tmp_path, b"x" * (2 * MAX_LINE_BYTES + 5))
    reader = LogReader(tmp_path, OUT)
    assert [len(line.data) for line in reader.read()] == [MAX_LINE_BYTES, MAX_LINE_BYTES]
    append(tmp_path, b"y\n")
    assert texts(reader.read()) == ["xxxxxy"]


def test_over_two_rotations(tmp_path: Path) -> None:
    """What is rotated away is lost; everything that is left comes once."""
    reader = LogReader(tmp_path, OUT)
    append(tmp_path, b"one\n")
    assert texts(reader.read()) == ["one"]
    rotate(tmp_path)
    append(tmp_path, b"two\n")
    rotate(tmp_path)
    append(tmp_path, b"three\n")
    assert texts(reader.read()) == ["two", "three"]


def test_between_the_steps_of_a_rotation(tmp_path: Path) -> None:
    """The old file is renamed, the new one is not there yet."""
    reader = LogReader(tmp_path, OUT)
    append(tmp_path, b"one\ntwo\n")
    assert texts(reader.read()) == ["one", "two"]
    append(tmp_path, b"three\n")
    (tmp_path / FILE).rename(tmp_path / f"{FILE}.1")
    assert texts(reader.read()) == ["three"]
    append(tmp_path, b"four\n")
    assert texts(reader.read()) == ["four"]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    """An inode number may be given again to a new file."""
    append(tmp_path, b"one\ntwo\n")
    reader = LogReader(tmp_path, OUT)
    assert texts(reader.read()) == ["one", "two"]
    (tmp_path / FILE).write_bytes(b"new\n")
    assert texts(reader.read()) == ["new"]


def test_the_last_lines(tmp_path: Path) -> None:
    """As many as asked for, also over a rotation and with a line that has no end."""
    append(tmp_path, b"")
    assert texts(LogReader(tmp_path, OUT, 3).drain()) == []
    append(tmp_path, b"one\ntwo\n")
    rotate(tmp_path)
    append(tmp_path, b"three\nfour")
    expected = ["one", "two", "three", "four"]
    for keep in range(6):
        reader = LogReader(tmp_path, OUT, keep)
        assert texts(reader.drain()) == expected[len(expected) - min(keep, 4) :]
        assert reader.kept == min(keep, 4)


def test_the_last_lines_of_long_files(tmp_path: Path) -> None:
    """Only the end of the file is read, in blocks."""
    append(tmp_path, b"".join(b"%0100d\n" % n for n in range(10_000)))
    assert [int(text) for text in texts(LogReader(tmp_path, OUT, 4_000).drain())] == list(range(6_000, 10_000))


def test_the_last_lines_go_back_over_tries(tmp_path: Path) -> None:
    """Each stream gets its own number of lines; a try that printed little is filled up from the one before."""
    append(tmp_path, b"a\nb\nc\n")
    append(tmp_path, b"d\n", "worker-0.s2.t1.out")
    append(tmp_path, b"e\n", "worker-0.s2.t1.err")
    found = find_log_files(tmp_path, Selection())
    assert [text for reader in open_readers(tmp_path, found, 2) for text in texts(reader.drain())] == ["c", "d", "e"]
    assert [text for reader in open_readers(tmp_path, found) for text in texts(reader.drain())] == list("abcde")


@given(
    seed=st.integers(0, 2**32),
    lines=st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b".").replace(b"\r", b".")), max_size=30),
)
def test_nothing_is_lost_or_doubled(tmp_path_factory: pytest.TempPathFactory, seed: int, lines: list[bytes]) -> None:
    """Random writes, looks and (at most one between two looks) rotations."""
    folder = tmp_path_factory.mktemp("logs")
    dice = random.Random(seed)
    reader = LogReader(folder, OUT)
    stream = b"".join(line + b"\n" for line in lines)
    seen: list[bytes] = []
    while stream:
        size = dice.randint(1, 12)
        append(folder, stream[:size])
        stream = stream[size:]
        what = dice.random()
        if what < 0.3:
            rotate(folder)
        if what < 0.6:
            seen += [line.data for line in reader.read()]
    seen += [line.data for line in reader.drain()]
    assert seen == lines


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
    monkeypatch.setattr("tony.jobs.log_tail.PARTIAL_LINE_SECONDS", 0.0)
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


async def test_a_line_that_was_ended_while_this_process_was_suspended(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is due, and whole."""
    monkeypatch.setattr("tony.jobs.log_tail.PARTIAL_LINE_SECONDS", 0.0)
    with LogTail(folder.logs, Selection(), live=True) as tail:
        write_log(folder, "worker-0.s1.t1.out", "half")
        assert list(tail.read_new_lines()) == []
        tail.take_changes()
        write_log(folder, "worker-0.s1.t1.out", " done\n")
        assert [line.text for line in tail.read_new_lines(tail.take_changes())] == ["half done"]
        assert list(tail.take_due_lines()) == []


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
