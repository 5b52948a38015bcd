"""Objects appear whole under their digest, despite concurrent writers and failures."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import multiprocessing
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.storage.samples import cache_at
from tony.errors import StorageError
from tony.model.staged_files import Placement, StagedItem
from tony.storage.cache.object_cache import FIXED_TIME, Cache, Stored

CONTENT = b"some bytes" * 100_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ITEM = StagedItem(digest=DIGEST, size=len(CONTENT), name="it", placement=Placement.FILE)


def put(cache: Cache, content: bytes = CONTENT) -> Stored:
    with cache.open_writer("stage it", len(content)) as writer:
        for start in range(0, len(content), 70_000):
            writer.write(content[start : start + 70_000])
        return writer.commit()


def put_many(path: Path) -> None:
    for _ in range(20):
        put(Cache(path))


def files(cache: Cache) -> list[str]:
    return sorted(entry.name for entry in cache.path.iterdir() if entry.is_file())


def test_object_is_named_by_its_digest(tmp_path: Path) -> None:
    """`sha256sum` of an object is its name; only its owner can read it, and no user can write it."""
    cache = cache_at(tmp_path / "c")
    assert put(cache) == Stored(digest=DIGEST, size=len(CONTENT), reused=False)
    assert (files(cache), cache.find_object(DIGEST).read_bytes()) == ([DIGEST], CONTENT)
    assert cache.find_object(DIGEST).stat().st_mode & 0o777 == 0o400


def test_object_is_never_written_again(tmp_path: Path) -> None:
    """The second time the first file stays."""
    cache = cache_at(tmp_path)
    put(cache)
    inode = cache.find_object(DIGEST).stat().st_ino
    assert put(cache).reused
    assert (files(cache), cache.find_object(DIGEST).stat().st_ino) == ([DIGEST], inode)


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    """Without commit there is no object and no part."""
    cache = cache_at(tmp_path)

    def fail() -> None:
        with cache.open_writer("stage it", 10) as writer:
            writer.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert files(cache) == []


@pytest.mark.parametrize("damage", ["truncated", "written", "folder-less"])
def test_damaged_object_is_replaced(tmp_path: Path, damage: str) -> None:
    """A short one is detected by its size, a changed one by its time, a missing one by its absence."""
    cache = cache_at(tmp_path)
    put(cache)
    place = cache.find_object(DIGEST)
    place.chmod(0o600)
    if damage == "truncated":
        os.truncate(place, 17)
        os.utime(place, (FIXED_TIME, FIXED_TIME))
    elif damage == "written":
        place.write_bytes(b"X" * len(CONTENT))
    else:
        place.unlink()
    assert not cache.has(DIGEST, len(CONTENT))
    with pytest.raises(StorageError, match="missing or damaged"):
        cache.require(DIGEST, len(CONTENT), "it")
    assert not put(cache).reused
    assert cache.verify(ITEM).read_bytes() == CONTENT


def test_wrong_bytes_are_found_by_reading(tmp_path: Path) -> None:
    """What neither size nor time shows, the digest does; the object is removed, so that the next submit mends it."""
    cache = cache_at(tmp_path)
    put(cache)
    place = cache.find_object(DIGEST)
    place.chmod(0o600)
    place.write_bytes(b"X" + CONTENT[1:])
    os.utime(place, (FIXED_TIME, FIXED_TIME))
    with pytest.raises(StorageError, match="Submit the job again"):
        cache.verify(ITEM)
    assert files(cache) == []


@pytest.mark.slow
def test_writers_at_the_same_time(tmp_path: Path) -> None:
    """Four processes write the same object over and over; at every moment it is whole."""
    cache = cache_at(tmp_path)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=put_many, args=(tmp_path,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if cache.find_object(DIGEST).exists():
            assert cache.find_object(DIGEST).read_bytes() == CONTENT
    for writer in writers:
        writer.join()
    assert ([writer.exitcode for writer in writers], files(cache)) == ([0] * 4, [DIGEST])


def test_link_shares_the_file(tmp_path: Path) -> None:
    """A job's link costs no room and may be made twice."""
    cache = cache_at(tmp_path / "c")
    put(cache)
    (tmp_path / "staged").mkdir()
    cache.link(DIGEST, tmp_path / "staged")
    cache.link(DIGEST, tmp_path / "staged")
    assert (tmp_path / "staged" / DIGEST).samefile(cache.find_object(DIGEST))


def test_link_to_another_file_system_is_a_copy(tmp_path: Path) -> None:
    """Where hard links cannot reach, the job still gets its object."""
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    cache = cache_at(tmp_path)
    put(cache)
    folder = shm / f"tony-test-{os.getpid()}"
    folder.mkdir()
    try:
        cache.link(DIGEST, folder)
        assert (folder / DIGEST).read_bytes() == CONTENT
    finally:
        shutil.rmtree(folder)


def test_old_parts_are_removed(tmp_path: Path) -> None:
    """What a killed client left goes after a minute; what is being written stays, however slowly."""
    cache = cache_at(tmp_path)
    for name in (".old.part", ".new.part"):
        (tmp_path / name).write_bytes(b"x")
    os.utime(tmp_path / ".old.part", (time.time() - 120, time.time() - 120))
    with cache.open_writer("stage it", 1) as writer:
        (slow,) = set(files(cache)) - {".old.part", ".new.part"}
        os.utime(tmp_path / slow, (time.time() - 7200, time.time() - 7200))
        cache.prepare()
        assert sorted(files(cache)) == sorted([".new.part", slow])
        writer.write(b"x")
        writer.commit()


def test_a_file_that_is_being_stored_is_not_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks of the node prepare the cache in the middle of it, and the file is years old."""
    origin = tmp_path / "localized"
    origin.write_bytes(CONTENT)
    os.utime(origin, (FIXED_TIME, FIXED_TIME))
    cache = cache_at(tmp_path / "cache")
    replace = os.replace

    def while_another_prepares(source: Path, target: Path) -> None:
        cache.prepare()
        replace(source, target)

    monkeypatch.setattr(os, "replace", while_another_prepares)
    cache.take(DIGEST, origin)
    assert files(cache) == [DIGEST]
    assert cache.verify(ITEM).read_bytes() == CONTENT


def test_old_parts_where_locks_do_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks it is unknown whether a writer is active: they stay for a day."""

    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    cache = cache_at(tmp_path)
    for name, hours in ((".young.part", 23), (".old.part", 25)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time.time() - hours * 3600, time.time() - hours * 3600))
    cache.prepare()
    assert files(cache) == [".young.part"]


def test_an_object_that_cannot_fit_is_refused_at_once(tmp_path: Path) -> None:
    """The disk is not filled first; the message has path, need and free space."""
    cache = cache_at(tmp_path)
    expected = r"cannot stage it: not enough disk space in .*: 1024t needed, .* free.*TONY_HOME"
    with pytest.raises(StorageError, match=expected), cache.open_writer("stage it", 1024**5):
        pytest.fail("not reached")
    assert files(cache) == []


def test_read_only_cache_is_named(tmp_path: Path) -> None:
    """A cache that is no folder is said with its path."""
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(StorageError, match=f"cannot prepare the cache {tmp_path}/cache"):
        Cache(tmp_path / "cache").prepare()
