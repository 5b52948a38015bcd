"""An index of times: right for every byte, small, and harmless when it is cut off, damaged or foreign."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.linux.time_index import (
    BLOCK_BYTES,
    TimeIndexWriter,
    build_index_path,
    find_offset,
    parse_index_name,
    read_times,
    rename_with_index,
)

NOW = 178_000_000_000
#: Bytes of a piece of output, and hundredths of a second before it: few, or numbers that need more bytes.
PIECES = st.tuples(st.integers(1, 300) | st.integers(1, 1 << 40), st.integers(-5, 300) | st.integers(0, 1 << 36))


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_index(file: Path, pieces: Sequence[tuple[int, int]], closes_every: int = 0) -> list[tuple[int, int]]:
    """Write the index of a file to which pieces are appended; return offset and time of each."""
    file.touch()
    writer = TimeIndexWriter(file)
    offset, moment = 0, NOW
    noted: list[tuple[int, int]] = []
    for number, (size, pause) in enumerate(pieces, start=1):
        moment += pause
        writer.note(offset, moment)
        noted.append((offset, moment))
        offset += size
        if closes_every and number % closes_every == 0:
            writer.close()
            writer = TimeIndexWriter(file)
    writer.close()
    return noted


def find_expected(noted: Sequence[tuple[int, int]], place: int) -> int:
    """Return the latest time of the pieces up to the one that has a byte: it never decreases."""
    return max(moment for offset, moment in noted if offset <= place)


@given(pieces=st.lists(PIECES, min_size=1, max_size=60), closes_every=st.integers(0, 5), data=st.data())
def test_every_byte_has_its_time(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int]], closes_every: int, data: st.DataObject
) -> None:
    """Also after its writer was closed and another one has continued it."""
    file = tmp_path_factory.mktemp("logs") / "log"
    noted = write_index(file, pieces, closes_every)
    end = noted[-1][0] + pieces[-1][0]
    start = data.draw(st.integers(0, end - 1))
    with opened(build_index_path(file)) as index:
        times = read_times(index, start, end)
        assert times[0][0] <= start
        assert [offset for offset, _ in times] == sorted({offset for offset, _ in times})
        for place in {start, *(offset for offset, _ in noted if offset >= start)}:
            assert [moment for offset, moment in times if offset <= place][-1] == find_expected(noted, place)
        at = data.draw(st.sampled_from(noted))[1] + data.draw(st.integers(-2, 2))
        later = [offset for offset, _ in noted if find_expected(noted, offset) >= at]
        assert find_offset(index, at) == (later[0] if later else None)


def test_an_index_of_many_lines_is_small(tmp_path: Path) -> None:
    """A day of lines of 60 bytes, one a second: two bytes each, and any of them is found."""
    file = tmp_path / "log"
    noted = write_index(file, [(60, 100)] * 86_400)
    size = build_index_path(file).stat().st_size
    assert size < 86_400 * 60 / 25
    assert size > 10 * BLOCK_BYTES
    with opened(build_index_path(file)) as index:
        for offset, moment in noted[::997]:
            assert read_times(index, offset + 59, offset + 60) == [(offset, moment)]
            assert find_offset(index, moment) == offset


def test_an_index_takes_at_most_a_quarter_of_its_file(tmp_path: Path) -> None:
    """Of lines of two bytes, most have the time of one before: times are left out, but never wrong by much."""
    file = tmp_path / "log"
    noted = write_index(file, [(2, 1)] * 100_000)
    assert build_index_path(file).stat().st_size <= 200_000 / 4 + BLOCK_BYTES
    with opened(build_index_path(file)) as index:
        for offset, moment in noted[::1009]:
            assert 0 <= moment - read_times(index, offset, offset + 1)[0][1] < 20_000


@given(pieces=st.lists(PIECES, min_size=1, max_size=40), cut=st.integers(0, 400))
def test_an_index_that_was_cut_off_is_valid_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int]], cut: int
) -> None:
    """Nothing is wrong before the cut, and another writer continues there."""
    file = tmp_path_factory.mktemp("logs") / "log"
    noted = write_index(file, pieces)
    end = noted[-1][0] + pieces[-1][0]
    path = build_index_path(file)
    with opened(path) as index:
        whole = read_times(index, 0, end)
    os.truncate(path, min(cut, path.stat().st_size))
    with opened(path) as index:
        times = read_times(index, 0, end)
        assert times == whole[: len(times)]
    later = max(moment for _, moment in noted) + 100
    writer = TimeIndexWriter(file)
    writer.note(end, later)
    writer.close()
    with opened(path) as index:
        assert read_times(index, 0, end) == times
        assert read_times(index, end, end + 1) == [(end, later)]


@given(data=st.binary(max_size=300) | st.just(b"\xff" * 9000), start=st.integers(0, 1 << 62), size=st.integers(0, 9999))
def test_a_foreign_index_does_no_harm(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: int, size: int
) -> None:
    """Whatever is in it: offsets and times are in order, and within bounds."""
    path = tmp_path_factory.mktemp("logs") / "index"
    path.write_bytes(data)
    with opened(path) as index:
        times = read_times(index, start, start + size)
        assert all(first[0] < second[0] and first[1] < second[1] for first, second in pairwise(times))
        assert all(0 < moment < 1 << 50 for _, moment in times)
        find_offset(index, start)


def test_blocks_that_repeat_the_same_bytes_are_not_read(tmp_path: Path) -> None:
    """Else a crafted index of 2 MiB had a million times for any piece of a log."""
    path = tmp_path / "index"
    block = struct.pack("<QQ", 1, NOW) + b"\x01" * (BLOCK_BYTES - 16)
    path.write_bytes(block * 40)
    with opened(path) as index:
        for start, end in ((0, 9000), (1, 4096), (5000, 9000)):
            times = read_times(index, start, end)
            assert 0 < len(times) <= end - start + 1
            assert all(first < second for first, second in pairwise(offset for offset, _ in times))


def test_a_time_for_each_byte_is_more_than_is_returned(tmp_path: Path) -> None:
    """An index of our own takes a quarter of the bytes of its file; a crafted one could have a million for a piece."""
    path = tmp_path / "index"
    steps = b"\x01" * (BLOCK_BYTES - 16)
    known = len(steps) // 2 + 1
    path.write_bytes(b"".join(struct.pack("<QQ", 1 + known * at, NOW + known * at) + steps for at in range(60)))
    with opened(path) as index:
        assert len(read_times(index, 0, 100_000)) < 100_000 / 8 + BLOCK_BYTES


def test_an_index_is_renamed_with_its_file(tmp_path: Path) -> None:
    """The older one is removed, even if the newer file has none."""
    newer, older = tmp_path / "log", tmp_path / "log.1"
    write_index(newer, [(1, 1)])
    rename_with_index(newer, older)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".log.1.times", "log.1"]
    newer.touch()
    rename_with_index(newer, older)
    assert [path.name for path in tmp_path.iterdir()] == ["log.1"]


def test_what_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    """A folder that is gone costs times, and nothing else."""
    writer = TimeIndexWriter(tmp_path / "gone" / "log")
    writer.note(0, NOW)
    writer.close()


def test_names_of_indexes() -> None:
    path = build_index_path(Path("logs/worker-0.s1.t1.out"))
    assert (path.name, parse_index_name(path.name)) == (".worker-0.s1.t1.out.times", "worker-0.s1.t1.out")
    assert parse_index_name("worker-0.s1.t1.out") == ""
