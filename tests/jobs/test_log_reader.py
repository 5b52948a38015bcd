"""Lines have the time at which their first byte was printed, over rotations, in order, and from any time on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.executor.output.log_file import BoundedLogFile
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_lines import LogLine, merge_lines
from tony.jobs.log_reader import LogReader, limit_chunks, open_readers
from tony.linux.time_index import build_index_path
from tony.model.log_name import LogName

OUT = LogName("worker", 0, 1, 1, "out")
TIMED = Selection(has_times=True)
NOW = 1_780_000_000.0


def write_log(folder: Path, name: LogName, pieces: list[tuple[bytes, float]], limit: int = 1 << 20) -> None:
    """Write output, each piece with its time after `NOW`."""
    file = BoundedLogFile(folder / name.file, limit)
    for data, at in pieces:
        file.write(data, NOW + at)
    file.close()


def shown(lines: list[LogLine]) -> list[tuple[str, float | None]]:
    return [(line.text, None if line.at is None else round(line.at - NOW, 2)) for line in lines]


@given(
    pieces=st.lists(st.tuples(st.sampled_from([b"a", b"b\n", b"\n", b"cc\ndd\ne", b"f" * 40]), st.integers(0, 3))),
    chunk=st.integers(1, 30),
    limit=st.sampled_from([1 << 20, 60]),
)
def test_a_line_has_the_time_of_its_first_byte(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[bytes, int]], chunk: int, limit: int
) -> None:
    """However the output came, and however it is read; of a rotated log, for the lines that are whole."""
    folder = tmp_path_factory.mktemp("logs")
    at, timed, times = 0, [], []
    for data, pause in pieces:
        at += pause
        timed.append((data, float(at)))
        times += [float(at)] * len(data)
    write_log(folder, OUT, timed, limit)
    text = b"".join(data for data, _ in pieces)
    expected, start = [], 0
    for line in text.split(b"\n"):
        if start < len(text):
            expected.append((line.decode(), times[start]))
        start += len(line) + 1
    reader = LogReader(folder, OUT, None, TIMED)
    reader.chunk_bytes = chunk
    found = shown(list(reader.drain()))
    count = len(found) - 1 if limit < len(text) else len(expected)  # the first one may have lost its beginning
    assert count == 0 or found[-count:] == expected[-count:]


def test_lines_of_several_logs_are_merged(tmp_path: Path) -> None:
    """By time; of the same time, by task; a log without times comes first."""
    other = replace_name("worker", 1)
    write_log(tmp_path, OUT, [(b"a\nb\n", 1.0), (b"c\n", 3.0)])
    write_log(tmp_path, other, [(b"d\n", 1.0), (b"e\nf\n", 2.0), (b"g", 4.0)])
    (tmp_path / "chief-0.s1.t1.out").write_bytes(b"x\ny\n")
    readers = open_readers(tmp_path, find_log_files(tmp_path, TIMED), None, TIMED)
    limit_chunks(readers)
    merged = shown(list(merge_lines([reader.drain() for reader in readers])))
    assert [text for text, _ in merged] == ["x", "y", "a", "b", "d", "e", "f", "c", "g"]
    assert [at for _, at in merged] == [None, None, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0]


def replace_name(role: str, index: int, session: int = 1) -> LogName:
    return LogName(role, index, session, 1, "out")


@pytest.mark.parametrize(
    ("since", "keep", "expected"),
    [
        (2.0, None, ["three", "four", "five"]),
        (2.0, 2, ["four", "five"]),
        (2.0, 9, ["three", "four", "five"]),
        (0.5, None, ["one", "two", "three", "four", "five"]),
        (9.0, None, []),
        (9.0, 1, []),
        (3.0, None, ["five"]),
    ],
)
def test_lines_since_a_time(tmp_path: Path, since: float, keep: int | None, expected: list[str]) -> None:
    """A line that was begun before is left out, even if it was ended later."""
    write_log(tmp_path, OUT, [(b"one\ntw", 1.0), (b"o\nthree\n", 2.0), (b"four", 2.5), (b"\nfive\n", 3.0)])
    reader = LogReader(tmp_path, OUT, keep, replace(TIMED, since=NOW + since))
    assert [line.text for line in reader.drain()] == expected


def test_lines_since_a_time_over_a_rotation(tmp_path: Path) -> None:
    """The older file is passed over if all of it is older."""
    write_log(tmp_path, OUT, [(b"line %d of a log\n" % number, float(number)) for number in range(10)], 100)
    assert (tmp_path / f"{OUT.file}.1").exists()
    texts = [line.text for line in LogReader(tmp_path, OUT, None, replace(TIMED, since=NOW + 7.0)).drain()]
    assert texts == [f"line {number} of a log" for number in range(7, 10)]


def test_lines_without_a_known_time_are_shown(tmp_path: Path) -> None:
    """What is unknown is not hidden."""
    write_log(tmp_path, OUT, [(b"one\n", 1.0)])
    build_index_path(tmp_path / OUT.file).unlink()
    assert shown(list(LogReader(tmp_path, OUT, None, replace(TIMED, since=NOW + 5.0)).drain())) == [("one", None)]


def test_the_newest_session_of_each_task(tmp_path: Path) -> None:
    """A task that finished for good in an earlier session has no log of the later ones."""
    for name in (replace_name("prepare", 0), OUT, replace_name("worker", 0, 2), replace_name("worker", 1, 2)):
        (tmp_path / name.file).touch()
    found = find_log_files(tmp_path, Selection(is_newest_only=True))
    assert [(name.task, name.session) for name in found] == [("prepare:0", 1), ("worker:0", 2), ("worker:1", 2)]
