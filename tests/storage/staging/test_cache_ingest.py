"""What did not change is not read again; what did is."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.storage.samples import Node, cache_at, write_tree
from tony.storage.cache.object_cache import Cache, Stored
from tony.storage.staging import cache_ingest, digest_index
from tony.storage.staging.folder_scan import scan
from tony.storage.staging.tar_writer import FileChangedError, OpenFile, open_file

TREE: dict[str, Node] = {"a": (b"one", 0o644), "d/b": (b"two", 0o755), "l": "a"}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets time pass, so that files just written count as settled."""
    monkeypatch.setattr(digest_index, "read_clock", lambda: time.time() + 10)


def put(cache: Cache, root: Path) -> Stored:
    return cache_ingest.store_folder(cache, scan(root, git=True), lambda: scan(root, git=True), "source")


def hide(path: Path) -> None:
    """Changes every file's content and leaves no trace in its name, size and modification time."""
    stamps = {place: place.stat() for place in path.rglob("*") if place.is_file()}
    for place, status in stamps.items():
        place.write_bytes(b"#" * status.st_size)
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.usefixtures("later")
def test_unchanged_folder_is_recognised(tmp_path: Path) -> None:
    """The second time the object is found, nothing is written."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    first = put(cache, root)
    status = cache.find_object(first.digest).stat()
    second = put(cache, root)
    assert (first.reused, second.reused, second.digest) == (False, True, first.digest)
    assert cache.find_object(first.digest).stat() == status


@pytest.mark.usefixtures("later")
def test_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognising costs a walk; a touched file is read, and found to be the same."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    put(cache, root)
    read: list[str] = []

    def noting(place: Path, path: str) -> AbstractContextManager[OpenFile]:
        read.append(path)
        return open_file(place, path)

    monkeypatch.setattr(cache_ingest, "open_file", noting)
    assert put(cache, root).reused
    assert read == []
    os.utime(root / "a", (1, 1))
    assert put(cache, root).reused
    assert put(cache, root).reused
    assert read == ["a"]


def test_fresh_files_are_read_again(tmp_path: Path) -> None:
    """Within two seconds of a change the index is not believed: a change that leaves no trace is still seen."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    first = put(cache, root)
    hide(root)
    assert put(cache, root).digest != first.digest


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "less", "more"])
def test_every_change_is_seen(tmp_path: Path, change: str) -> None:
    """Content of the same size with its old time, a bit of mode, a name, a link's target, one file less or more."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    first = put(cache, root)
    if change == "content":
        hide(root)
    elif change == "mode":
        (root / "a").chmod(0o600)
    elif change == "name":
        (root / "a").rename(root / "A")
    elif change == "link":
        (root / "l").unlink()
        (root / "l").symlink_to("d")
    elif change == "less":
        (root / "d" / "b").unlink()
    else:
        (root / "d" / "c").write_bytes(b"")
    second = put(cache, root)
    assert (second.digest != first.digest, second.reused) == (True, False)


@pytest.mark.usefixtures("later")
def test_lost_object_is_made_again_with_the_same_name(tmp_path: Path) -> None:
    """The index alone is not enough, and the digest is reproducible."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    first = put(cache, root)
    cache.find_object(first.digest).unlink()
    assert put(cache, root) == first


def test_folder_that_changes_meanwhile_is_scanned_again(tmp_path: Path) -> None:
    """A file that goes between walk and packing costs a second walk; one that always goes is named."""
    cache, root = cache_at(tmp_path / "c"), write_tree(tmp_path / "s", TREE)
    before = scan(root, git=True)
    (root / "a").unlink()
    stored = cache_ingest.store_folder(cache, before, lambda: scan(root, git=True), "source")
    assert stored.digest == put(cache, root).digest
    with pytest.raises(FileChangedError, match="a"):
        cache_ingest.store_folder(cache, before, lambda: before, "source")


@pytest.mark.usefixtures("later")
def test_single_file(tmp_path: Path) -> None:
    """A file is its own object; unchanged or only touched it is not copied again."""
    cache = cache_at(tmp_path / "c")
    place = tmp_path / "data.npz"
    place.write_bytes(b"x" * 3_000_000)
    first = cache_ingest.store_file(cache, place, "data.npz")
    assert (first.reused, cache.find_object(first.digest).read_bytes()) == (False, place.read_bytes())
    assert cache_ingest.store_file(cache, place, "data.npz").reused
    os.utime(place, (5, 5))
    assert cache_ingest.store_file(cache, place, "data.npz").reused
    place.write_bytes(b"y" * 3_000_000)
    assert not cache_ingest.store_file(cache, place, "data.npz").reused


@pytest.mark.usefixtures("later")
def test_checks_are_remembered_per_content_and_use(tmp_path: Path) -> None:
    """An archive that was read to its end once is not read again, until it changes."""
    cache, place = cache_at(tmp_path / "c"), tmp_path / "a.zip"
    place.write_bytes(b"1")
    digest = cache_ingest.store_file(cache, place, "a.zip").digest
    cache_ingest.set_checked(cache, place, digest, "folder")
    assert cache_ingest.is_checked(cache, place, digest, "folder")
    assert not cache_ingest.is_checked(cache, place, digest, "python")
    place.write_bytes(b"2")
    assert not cache_ingest.is_checked(cache, place, cache_ingest.store_file(cache, place, "a.zip").digest, "folder")
