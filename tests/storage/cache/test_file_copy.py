"""Copies are exact and never land in a file that is there already."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.storage.samples import call_as_unprivileged_user, snapshot, write_tree
from tony.storage.cache.file_copy import SourceChangedError, clear, copy_file, copy_folder, remove_tree
from tony.storage.manifest import ManifestEntry, ManifestEntryKind

CONTENT = os.urandom(3_000_000)


def refuse(*_: object) -> int:
    """A file system that can neither share blocks nor copy by itself."""
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.mark.parametrize("power", ["all", "no copy_file_range"])
def test_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: str) -> None:
    """Whatever the file system can do, content, mode and time are right."""
    if power == "no copy_file_range":
        monkeypatch.setattr("os.copy_file_range", refuse)
    (tmp_path / "a").write_bytes(CONTENT)
    for name in ("b", "c"):
        copy_file(str(tmp_path / "a"), str(tmp_path / name), mode=0o751, size=len(CONTENT), mtime=1_000_000_000)
        status = (tmp_path / name).stat()
        assert (tmp_path / name).read_bytes() == CONTENT
        assert (status.st_mode & 0o777, status.st_mtime) == (0o751, 1_000_000_000)


def test_source_that_is_not_as_listed_is_refused(tmp_path: Path) -> None:
    """A short or missing source is not taken for a file."""
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(SourceChangedError):
        copy_file(str(tmp_path / "a"), str(tmp_path / "b"), mode=0o644, size=6)
    with pytest.raises(SourceChangedError):
        copy_file(str(tmp_path / "x"), str(tmp_path / "b"), mode=0o644, size=6)
    assert not (tmp_path / "b").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link in the way is replaced; what it leads to stays as it is."""
    write_tree(tmp_path, {"victim": (b"precious", 0o644), "content/a": (b"new", 0o644), "out/a": "../victim"})
    with pytest.raises(FileExistsError):
        copy_file(str(tmp_path / "content" / "a"), str(tmp_path / "out" / "a"), mode=0o644, size=3)
    copy_folder(
        tmp_path / "content",
        [ManifestEntry(path="a", kind=ManifestEntryKind.FILE, mode=0o644, size=3)],
        tmp_path / "out",
    )
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "out" / "a").is_symlink()


def test_a_copy_repairs_partial_content(tmp_path: Path) -> None:
    """Whatever is in the way of an entry is removed, whatever its kind; the rest of the folder stays."""
    write_tree(tmp_path / "content", {"d/x": (b"x", 0o644), "f": (b"f", 0o644)})
    entries = [
        ManifestEntry(path="d", kind=ManifestEntryKind.FOLDER, mode=0o750),
        ManifestEntry(path="d/x", kind=ManifestEntryKind.FILE, mode=0o600, size=1, mtime=1_000_000_000),
        ManifestEntry(path="f", kind=ManifestEntryKind.FILE, mode=0o755, size=1, mtime=1_000_000_000),
        ManifestEntry(path="l", kind=ManifestEntryKind.LINK, target="d"),
    ]
    write_tree(
        tmp_path / "out", {"d": "elsewhere", "f/deep": (b"", 0o644), "l/deep": (b"", 0o644), "own": (b"", 0o644)}
    )
    for _ in range(2):
        copy_folder(tmp_path / "content", entries, tmp_path / "out")
        assert snapshot(tmp_path / "out") == {
            "d": ("folder", 0o750, b""),
            "d/x": ("file", 0o600, b"x"),
            "f": ("file", 0o755, b"f"),
            "l": ("link", 0, "d"),
            "own": ("file", 0o644, b""),
        }


def test_clear_removes_the_link_not_its_target(tmp_path: Path) -> None:
    """Also when the target is a folder, and when there is nothing."""
    write_tree(tmp_path, {"keep/x": (b"x", 0o644), "link": "keep"})
    clear(tmp_path / "link")
    clear(tmp_path / "nothing")
    assert sorted(snapshot(tmp_path)) == ["keep", "keep/x"]


def test_closed_folders_can_be_removed(open_folder: Path) -> None:
    """A program may have taken its own right to write away; links out of the folder are left alone."""

    def story() -> tuple[bool, int]:
        write_tree(open_folder, {"a/b/x": (b"", 0o644), "a/b/l": str(open_folder / "c"), "c": None})
        (open_folder / "c").chmod(0o500)
        (open_folder / "a" / "b").chmod(0o000)
        (open_folder / "a").chmod(0o500)
        remove_tree(open_folder / "a")
        remove_tree(open_folder / "a")
        return (open_folder / "a").exists(), (open_folder / "c").stat().st_mode & 0o777

    assert call_as_unprivileged_user(story) == (False, 0o500)
