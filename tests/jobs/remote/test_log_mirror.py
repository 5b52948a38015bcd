"""Copies of log files: the very bytes, no more room than the original, whatever ends their writer and whenever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tony.errors import StorageError
from tony.executor.output.log_file import BoundedLogFile
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.log_reader import LogReader
from tony.jobs.remote.log_mirror import Mirror, complete, describe_missing_bytes, find_missing_bytes, note_complete
from tony.model.log_name import LogName
from tony.protocol.output_messages import pack_times, unpack_times

NAME = LogName("worker", 0, 1, 1, "out")


def on_disk(folder: Path, name: LogName = NAME) -> bytes:
    """Both files, older first."""
    older = name.build_rotated_path(folder)
    newer = folder / name.file
    return (older.read_bytes() if older.exists() else b"") + (newer.read_bytes() if newer.exists() else b"")


@settings(max_examples=80)
@given(
    writes=st.lists(st.binary(min_size=1, max_size=60) | st.just(b"line\n"), max_size=25),
    limit=st.integers(2, 200),
    pause=st.integers(1, 5),
    most=st.integers(1, 70),
    again=st.integers(1, 4),
)
def test_a_copy_is_its_original(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], limit: int, pause: int, most: int, again: int
) -> None:
    """Over rotations and restarts of its writer, also one that is behind, a copy holds what the original holds."""
    there, here = tmp_path_factory.mktemp("there"), tmp_path_factory.mktemp("here")
    original = BoundedLogFile(there / NAME.file, limit)
    mirror = Mirror(here)
    pulls = 0
    for number, data in enumerate([*writes, b""], start=1):
        original.write(data, 1_780_000_000.0 + number / 4)
        if number % pause and number <= len(writes):
            continue
        while (piece := original.read(mirror.end(NAME), most)).data:
            times = unpack_times(pack_times(piece.times))
            mirror.write(NAME, piece.start, piece.offset, piece.data, times)
            pulls += 1
            if pulls % again == 0:
                mirror.close()
                mirror = Mirror(here)
    mirror.close()
    original.close()
    assert on_disk(here).endswith((there / NAME.file).read_bytes() if writes else b"")
    assert len(on_disk(here)) <= limit
    if not (there / f"{NAME.file}.1").exists():
        assert on_disk(here) == b"".join(writes)
        timed = [list(LogReader(folder, NAME, None, Selection(has_times=True)).drain()) for folder in (here, there)]
        assert timed[0] == timed[1]
        assert all(line.at is not None for line in timed[0])
    assert find_log_files(here, Selection()) in ([], [NAME])


def test_pieces_that_come_twice_are_kept_once(tmp_path: Path) -> None:
    """Two sources may tell the same: only what is new is added."""
    mirror = Mirror(tmp_path)
    mirror.write(NAME, 0, 0, b"hello ")
    mirror.write(NAME, 0, 0, b"hello ")
    mirror.write(NAME, 0, 3, b"lo world")
    mirror.write(NAME, 0, 2, b"")
    assert on_disk(tmp_path) == b"hello world"
    assert mirror.end(NAME) == 11
    assert not mirror.is_rotated(NAME)


def test_a_mirror_resumes_after_a_kill_during_rotation(tmp_path: Path) -> None:
    """The newer file is rotated, and the next one does not exist yet: the offset is known all the same."""
    mirror = Mirror(tmp_path)
    mirror.write(NAME, 0, 0, b"first")
    mirror.write(NAME, 5, 5, b"second")
    mirror.close()
    os.replace(tmp_path / NAME.file, NAME.build_rotated_path(tmp_path))
    mirror = Mirror(tmp_path)
    assert mirror.end(NAME) == 11
    mirror.write(NAME, 11, 11, b"third")
    assert on_disk(tmp_path) == b"secondthird"
    mirror.close()
    (tmp_path / f".{NAME.file}.start").write_text("no json")
    assert Mirror(tmp_path).end(NAME) == 5  # read again from there


def test_only_what_was_never_copied_is_missing(tmp_path: Path) -> None:
    """What was rotated away was here."""
    mirror = Mirror(tmp_path)
    for start in (0, 5, 10, 15):
        mirror.write(NAME, start, start, b"12345")
    assert (describe_missing_bytes(tmp_path, [NAME]), len(on_disk(tmp_path))) == ("", 10)
    mirror.write(NAME, 20, 30, b"12")
    assert describe_missing_bytes(tmp_path, [NAME]) == f"10 bytes before the last 2 bytes of {NAME.file}"
    known = {NAME: find_missing_bytes(tmp_path, NAME)}
    assert describe_missing_bytes(tmp_path, [NAME], known) == ""
    mirror.write(NAME, 20, 36, b"12")
    assert describe_missing_bytes(tmp_path, [NAME], known) == f"4 bytes of {NAME.file}"
    mirror.close()
    os.replace(tmp_path / NAME.file, NAME.build_rotated_path(tmp_path))  # killed in the middle of a rotation
    mirror = Mirror(tmp_path)
    assert find_missing_bytes(tmp_path, NAME) == 14
    mirror.write(NAME, 38, 38, b"12")
    assert (find_missing_bytes(tmp_path, NAME), mirror.end(NAME)) == (14, 40)
    mirror.close()
    assert (find_missing_bytes(tmp_path, NAME), Mirror(tmp_path).end(NAME)) == (14, 40)


def test_a_kill_in_the_middle_of_a_second_rotation_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was killed before it had written anything to the newer file, which is empty."""
    mirror = Mirror(tmp_path)
    mirror.write(NAME, 0, 0, b"12345")
    mirror.write(NAME, 5, 9, b"123")
    mirror.close()
    os.truncate(tmp_path / NAME.file, 0)
    mirror = Mirror(tmp_path)
    assert (mirror.end(NAME), find_missing_bytes(tmp_path, NAME)) == (9, 4)

    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if Path(target) == tmp_path / NAME.file:
            raise OSError("killed")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="killed"):
            mirror.write(NAME, 5, 15, b"678")
    mirror.close()
    mirror = Mirror(tmp_path)
    assert (mirror.end(NAME), find_missing_bytes(tmp_path, NAME)) == (9, 4)
    mirror.write(NAME, 5, 9, b"abc")
    assert on_disk(tmp_path) == b"12345abc"
    mirror.close()


def test_a_rotated_copy_reads_like_the_source(tmp_path: Path) -> None:
    """Lines across the rotation are whole."""
    mirror = Mirror(tmp_path)
    reader = LogReader(tmp_path, NAME)
    mirror.write(NAME, 0, 0, b"one\ntw")
    lines = [line.data for line in reader.read()]
    mirror.write(NAME, 6, 6, b"o\nthree\n")
    mirror.write(NAME, 6, 14, b"four")
    lines += [line.data for line in reader.drain()]
    assert lines == [b"one", b"two", b"three", b"four"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A lock for each stream, released with its holder."""
    first, second = Mirror(tmp_path), Mirror(tmp_path)
    assert first.take(3)
    assert first.take(3)
    assert not second.take(3)
    assert second.take(4)
    first.leave(3)
    assert second.take(3)
    second.close()
    assert first.take(4)


def test_complete_streams_are_remembered(tmp_path: Path) -> None:
    """Stream by stream; none before there is a note, or if it cannot be read."""
    assert complete(tmp_path) == frozenset()
    note_complete(tmp_path, ["worker:0 out"])
    note_complete(tmp_path, [])
    note_complete(tmp_path, ["worker:0 err", "worker:1 out"])
    assert complete(tmp_path) == {"worker:0 out", "worker:0 err", "worker:1 out"}
    (tmp_path / ".complete").write_bytes(b"\xff\xfe")
    assert complete(tmp_path) == frozenset()


def test_a_log_directory_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*logs: File exists"):
        Mirror(tmp_path / "logs")
