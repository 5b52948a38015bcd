"""The same folder gives the same tar, and the tar gives the folder back."""

from __future__ import annotations

import os
import random
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.samples import Node, snapshot, trees, write_tree
from tony.storage.archives.archive_detection import Format
from tony.storage.archives.unpack import unpack
from tony.storage.staging.folder_scan import Scan, ScannedEntry, scan
from tony.storage.staging.tar_writer import (
    FileChangedError,
    compute_tree_digest,
    estimate_packed_size,
    open_file,
    pack,
)


def packed(found: Scan) -> bytes:
    parts: list[bytes] = []
    pack(found.root, found.found, parts.append)
    return b"".join(parts)


@pytest.mark.slow
@settings(max_examples=60)
@given(tree=trees(), seed=st.integers())
def test_round_trip_and_stability(tree: dict[str, Node], seed: int) -> None:
    """Modes, links, names and content come back; order of making, umask and times leave no trace in the tar."""
    with tempfile.TemporaryDirectory() as folder:
        one = write_tree(Path(folder) / "one", tree)
        shuffled = list(tree.items())
        random.Random(seed).shuffle(shuffled)
        before = os.umask(0o077)
        try:
            two = write_tree(Path(folder) / "two", dict(shuffled))
        finally:
            os.umask(before)
        for place in two.rglob("*"):  # folders get their mode from the umask, and every mode counts
            if place.is_dir() and not place.is_symlink():
                place.chmod((one / place.relative_to(two)).stat().st_mode & 0o7777)
            os.utime(place, (seed % 10**9, seed % 10**9), follow_symlinks=False)
        tar = packed(scan(one, git=False))
        assert packed(scan(two, git=False)) == tar
        (Path(folder) / "tar").write_bytes(tar)
        out = Path(folder) / "out"
        out.mkdir()
        unpack(Path(folder) / "tar", Format.TAR, out, "tar", outside_links=False)
        # What is unpacked in the cache stays writable for its owner; the list has the modes that tasks get.
        expected = {path: (k, mode | 0o600 if k == "file" else mode, c) for path, (k, mode, c) in snapshot(one).items()}
        assert snapshot(out) == expected


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    """Linux takes any bytes for a name."""
    (tmp_path / "s").mkdir()
    odd = os.fsdecode(b"caf\xe9")
    (tmp_path / "s" / odd).write_bytes(b"x")
    (tmp_path / "s" / "link").symlink_to(odd)
    (tmp_path / "tar").write_bytes(packed(scan(tmp_path / "s", git=True)))
    (tmp_path / "out").mkdir()
    unpack(tmp_path / "tar", Format.TAR, tmp_path / "out", "tar", outside_links=False)
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "s")


def test_other_unpackers_understand_it(tmp_path: Path) -> None:
    """It is an ordinary tar, long names and all; nothing in it tells who packed it."""
    write_tree(tmp_path / "s", {"d" * 200 + "/" + "n" * 200: (b"x" * 10, 0o640), "é": "d" * 200})
    (tmp_path / "tar").write_bytes(packed(scan(tmp_path / "s", git=True)))
    with tarfile.open(tmp_path / "tar") as tar:
        members = tar.getmembers()
    assert [m.name for m in members] == ["d" * 200, "d" * 200 + "/" + "n" * 200, "é"]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 946684800)}


def test_mode_content_and_name_change_the_digest(tmp_path: Path) -> None:
    found = scan(write_tree(tmp_path, {"a": (b"x", 0o644), "l": "a"}), git=True).found
    same = compute_tree_digest(found, {"a": "1"})
    write_tree(tmp_path, {"a": (b"x", 0o755)})
    assert compute_tree_digest(scan(tmp_path, git=True).found, {"a": "1"}) != same
    assert compute_tree_digest(found, {"a": "2"}) != same
    assert compute_tree_digest(found[:1], {"a": "1"}) != same


def test_file_that_grows_is_packed_as_it_was(tmp_path: Path) -> None:
    """A log that is written meanwhile does not keep a job from being submitted."""
    write_tree(tmp_path, {"log": (b"begin", 0o644)})
    parts: list[bytes] = []
    with open_file(tmp_path / "log", "log") as file:
        (tmp_path / "log").write_bytes(b"begin, and on")
        read = file.read(parts.append)
    assert (b"".join(parts), read.stamp.inode) == (b"begin", 0)


def test_a_file_that_shrinks_or_disappears_is_noticed(tmp_path: Path) -> None:
    """Half a file is never packed as a whole one."""
    write_tree(tmp_path, {"log": (b"begin", 0o644)})

    def read_while_it_shrinks() -> None:
        with open_file(tmp_path / "log", "log") as file:
            os.truncate(tmp_path / "log", 2)
            file.read(lambda _: None)

    with pytest.raises(FileChangedError):
        read_while_it_shrinks()
    found = scan(tmp_path, git=True)
    (tmp_path / "log").unlink()
    os.mkfifo(tmp_path / "log")  # opening it must not wait for a writer
    with pytest.raises(FileChangedError):
        packed(found)


def test_size_is_known_before(tmp_path: Path) -> None:
    """What is asked of the disk is about what is written."""
    found: Scan = scan(write_tree(tmp_path, {f"f{i}": (b"x" * 5000, 0o644) for i in range(50)}), git=True)
    files: tuple[ScannedEntry, ...] = found.found
    assert len(packed(found)) <= estimate_packed_size(files) <= 1.2 * len(packed(found))
