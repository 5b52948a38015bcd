"""Lines of several logs in order, page by page in both directions, each exactly once; and bounded searches."""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tony.executor.output.log_file import BoundedLogFile
from tony.jobs.directory import merged_logs
from tony.jobs.directory.log_search import SearchText
from tony.jobs.directory.merged_logs import LogPosition, LogSweep, MergedLines
from tony.jobs.directory.open_log import open_log
from tony.linux.time_index import build_index_path
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore

NOW = 1_780_000_000.0
NAMES = [
    LogName("chief", 0, 1, 1, "out"),
    LogName("worker", 0, 1, 1, "out"),
    LogName("worker", 0, 1, 1, "err"),
    LogName("worker", 2, 2, 1, "out"),
    LogName("worker", 10, 1, 1, "out"),
]
#: Which log, what, and hundredths of a second before it.
OUTPUT = st.lists(
    st.tuples(
        st.integers(0, len(NAMES) - 1),
        st.sampled_from([b"one\n", b"Two\n\n", b"three\nfour", b"x\n"]),
        st.integers(0, 2),
    ),
    max_size=40,
)


def sweep(folder: Path, *, most: int = 500, backwards: bool = False, text: str = "") -> LogSweep:
    return LogSweep(
        open_log=partial(open_log, LocalStore(folder), ""),
        names=[name for name in NAMES if (folder / name.file).exists()],
        max_lines=most,
        backwards=backwards,
        text=SearchText(text) if text else None,
    )


def show(found: MergedLines) -> list[tuple[LogName, bytes]]:
    return [(line.start.name, line.data) for line in found.lines]


def write_output(folder: Path, output: list[tuple[int, bytes, int]], without_times: int) -> list[tuple[LogName, bytes]]:
    """Write output; return all lines in the order in which they belong."""
    files = [BoundedLogFile(folder / name.file, 1 << 20) for name in NAMES]
    texts: list[list[tuple[bytes, int]]] = [[] for _ in NAMES]
    moment = 0
    for number, data, pause in output:
        moment += pause
        files[number].write(data, NOW + moment / 100)
        texts[number] += [(bytes([each]), moment) for each in data]
    for file in files:
        file.close()
    lines: list[tuple[int, int, int, LogName, bytes]] = []
    for number, name in enumerate(sorted(NAMES, key=lambda name: name.order)):
        letters = texts[NAMES.index(name)]
        if NAMES.index(name) == without_times:
            build_index_path(folder / name.file).unlink(missing_ok=True)
        start = 0
        for line in b"".join(letter for letter, _ in letters).split(b"\n"):
            if start < len(letters):
                moment = -1 if NAMES.index(name) == without_times else letters[start][1]
                lines.append((moment, number, start, name, line))
            start += len(line) + 1
    return [(name, line) for *_, name, line in sorted(lines, key=lambda each: each[:3])]


@settings(max_examples=60)
@given(
    output=OUTPUT, most=st.integers(1, 7), backwards=st.booleans(), text=st.sampled_from(["", "t", "ZZ"]),
    without_times=st.integers(0, 9), chunk=st.integers(1, 40),
)  # fmt: skip
def test_pages_have_every_line_once(
    tmp_path_factory: pytest.TempPathFactory,
    output: list[tuple[int, bytes, int]],
    most: int,
    backwards: bool,
    text: str,
    without_times: int,
    chunk: int,
) -> None:
    """From either end, with or without a text, however little is read at once; also of logs without times."""
    folder = tmp_path_factory.mktemp("logs")
    expected = [
        each for each in write_output(folder, output, without_times) if text.lower().encode() in each[1].lower()
    ]
    pages: list[list[tuple[LogName, bytes]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_logs, "_LEAST_CHUNK", chunk)
        patch.setattr(merged_logs, "_FIRST_CHUNKS", chunk)
        start: LogPosition | None = None
        while True:
            found = sweep(folder, most=most, backwards=backwards, text=text).read(start)
            pages.append(show(found))
            assert len(found.lines) == most or (found.earlier if backwards else found.later) is None
            start = found.earlier if backwards else found.later
            if start is None:
                break
            start = LogPosition.parse(str(start))
    assert [line for page in (reversed(pages) if backwards else pages) for line in page] == expected


def test_a_page_from_a_time_on(tmp_path: Path) -> None:
    """Begins with the first line printed then, of whatever task."""
    write_output(tmp_path, [(1, b"a\n", 0), (3, b"b\n", 100), (2, b"c\n", 100), (1, b"d\n", 100)], 9)
    found = sweep(tmp_path).read(LogPosition(moment=int(NOW * 100) + 150))
    assert [line.data for line in found.lines] == [b"c", b"d"]
    assert [line.at for line in found.lines] == [NOW + 2.0, NOW + 3.0]


def test_a_search_is_bounded_and_continues(tmp_path: Path) -> None:
    """One request reads a part only, and says where to continue: in the end the line is found."""
    name = NAMES[1]
    line = b"nothing of the kind\n"
    (tmp_path / name.file).write_bytes(b"the needle\n" + line * (10 * (1 << 20) // len(line)))
    start, turns = None, 0
    while True:
        search = sweep(tmp_path, backwards=True, text="NEEDLE")
        search.remaining_bytes = 3 << 20
        found = search.read(start)
        turns += 1
        if not found.is_cut:
            break
        assert found.earlier != start
        start = found.earlier
    assert [each.data for each in found.lines] == [b"the needle"]
    assert turns > 2


def test_a_position_in_a_log_that_was_rotated_is_found_by_its_time(tmp_path: Path) -> None:
    """Offsets count the bytes available; after a rotation has removed some, they are others."""
    name = NAMES[1]
    file = BoundedLogFile(tmp_path / name.file, 400)
    for number in range(10):
        file.write(b"line %04d\n" % number, NOW + number)
    position = sweep(tmp_path).read(None).lines[8].start
    for number in range(10, 50):
        file.write(b"line %04d\n" % number, NOW + number)
    file.close()
    before = sweep(tmp_path).read(None).lines[0].data
    assert before > b"line 0009"
    assert sweep(tmp_path).read(position).lines[0].data == before


@pytest.mark.parametrize("has_times", [True, False])
def test_no_byte_of_a_growing_line_is_lost(tmp_path: Path, has_times: bool) -> None:
    """A request after an unfinished line returns the rest of the line."""
    file = BoundedLogFile(tmp_path / NAMES[1].file, 1 << 20)
    got: list[bytes] = []
    position: LogPosition | None = None
    for number, piece in enumerate((b"abc", b"def\n", b"ghi")):
        file.write(piece, NOW + number)
        if not has_times:
            build_index_path(tmp_path / NAMES[1].file).unlink(missing_ok=True)
        found = sweep(tmp_path).read(position)
        assert found.later is None
        got += [line.data for line in found.lines]
        position = LogPosition.parse(str(found.lines[-1].end))
    file.close()
    assert got == [b"abc", b"def", b"ghi"]


def test_many_times_count_as_bytes_that_were_read(tmp_path: Path) -> None:
    """A crafted index has one for each byte of the log."""
    path = tmp_path / NAMES[1].file
    path.write_bytes(b"\n" * 10_000)
    steps = b"\x01" * 4080
    blocks = [struct.pack("<QQ", 2041 * number, int(NOW * 100) + number) + steps for number in range(5)]
    build_index_path(path).write_bytes(b"".join(blocks))
    search = sweep(tmp_path)
    search.read(None)
    assert search.remaining_bytes < merged_logs.MAX_READ_BYTES - 70_000


def test_a_very_long_line_comes_in_pieces(tmp_path: Path) -> None:
    """No request reads it whole, and the end of a piece is where the next one begins."""
    (tmp_path / NAMES[1].file).write_bytes(b"a" * 300_000 + b"\nend\n")
    for backwards in (True, False):
        lines = sweep(tmp_path, backwards=backwards).read(None).lines
        assert b"".join(line.data for line in lines) == b"a" * 300_000 + b"end"
        assert len(lines) > 2
        assert all(first.end.offset == second.start.offset for first, second in pairwise(lines))


@pytest.mark.parametrize(
    "text", ["", "1-2", "x-2-worker-0.s1.t1.out", "1-2-passwd", f"1-{'9' * 30}-worker-0.s1.t1.out"]
)
def test_other_texts_are_no_positions(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        LogPosition.parse(text)
