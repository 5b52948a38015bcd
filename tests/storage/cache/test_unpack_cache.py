"""An archive is unpacked once, also for concurrent requests, and a damaged tree is replaced."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.storage.samples import Node, cache_at, put_folder, snapshot, write_tree
from tony.errors import StorageError
from tony.model.staged_files import StagedItem
from tony.storage.cache.object_cache import Cache
from tony.storage.cache.unpack_cache import copy_tree_for_task

TREE: dict[str, Node] = {"d/run": (b"#!/bin/sh\n", 0o755), "x": (b"x" * 5000, 0o444), "l": "d/run", "empty": None}


def lay(cache: Cache, item: StagedItem, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    copy_tree_for_task(cache, item, target)
    return target


def lay_at_once(path: Path, item: StagedItem, target: Path, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    lay(Cache(path), item, target)


def trees(cache: Cache) -> list[str]:
    return sorted(os.listdir(cache.trees))


def test_each_task_gets_its_own_copy(tmp_path: Path) -> None:
    """Same content, modes and links; neither other tasks nor the cache see what one task writes."""
    cache = cache_at(tmp_path / "c")
    item = put_folder(cache, write_tree(tmp_path / "s", TREE))
    one, two = lay(cache, item, tmp_path / "1"), lay(cache, item, tmp_path / "2")
    assert snapshot(one) == snapshot(two) == snapshot(tmp_path / "s")
    (one / "x").chmod(0o644)
    (one / "x").write_bytes(b"changed")
    assert snapshot(lay(cache, item, tmp_path / "3")) == snapshot(two)


@pytest.mark.slow
def test_two_processes_unpack_once(tmp_path: Path) -> None:
    """Five processes that begin at one moment all get their copy of one tree."""
    cache = cache_at(tmp_path / "c")
    item = put_folder(cache, write_tree(tmp_path / "s", {f"f{i}": (os.urandom(2000), 0o644) for i in range(300)}))
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(5)
    targets = [tmp_path / str(number) for number in range(5)]
    workers = [context.Process(target=lay_at_once, args=(cache.path, item, target, start)) for target in targets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 5
    assert all(snapshot(target) == snapshot(tmp_path / "s") for target in targets)
    assert trees(cache) == [item.digest]


@pytest.mark.parametrize("damage", ["short file", "missing file", "short list", "no list"])
def test_damaged_tree_is_unpacked_again(tmp_path: Path, damage: str) -> None:
    """What a crash of the machine may leave is noticed while it is copied."""
    cache = cache_at(tmp_path / "c")
    item = put_folder(cache, write_tree(tmp_path / "s", TREE))
    lay(cache, item, tmp_path / "1")
    tree = cache.trees / item.digest
    if damage == "short file":
        os.truncate(tree / "content" / "x", 0)
    elif damage == "missing file":
        (tree / "content" / "d" / "run").unlink()
    elif damage == "short list":
        os.truncate(tree / "manifest.json", 20)
    else:
        (tree / "manifest.json").unlink()
    assert snapshot(lay(cache, item, tmp_path / "2")) == snapshot(tmp_path / "s")
    assert trees(cache) == [item.digest]


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    """The next one to unpack the same archive cleans up."""
    cache = cache_at(tmp_path / "c")
    item = put_folder(cache, write_tree(tmp_path / "s", TREE))
    write_tree(cache.trees / f".{item.digest}.abcd", {"content/half": (b"", 0o644)})
    lay(cache, item, tmp_path / "1")
    assert trees(cache) == [item.digest]


def test_damaged_object_is_not_unpacked(tmp_path: Path) -> None:
    """Its digest is compared first; nothing is left behind."""
    cache = cache_at(tmp_path / "c")
    item = put_folder(cache, write_tree(tmp_path / "s", TREE))
    place = cache.find_object(item.digest)
    status = place.stat()
    place.chmod(0o600)
    place.write_bytes(bytes(status.st_size))
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(StorageError, match="staged copy of source is missing or damaged"):
        lay(cache, item, tmp_path / "1")
    assert trees(cache) == []
