"""A task finds its source, its files and its Python; a second call changes nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.storage.samples import (
    Node,
    cache_at,
    make_venv,
    pack_tree,
    put_file,
    put_folder,
    snapshot,
    tar_of,
    trees,
    write_tree,
    zip_of,
)
from tony.errors import ArchiveError, StorageError
from tony.model.staged_files import Placement, StagedItem, StagedRole
from tony.storage.archives.archive_detection import Format
from tony.storage.environments.localization import Interpreter, localize

SOURCE: dict[str, Node] = {"train.py": (b"print(1)\n", 0o644), "run.sh": (b"#!/bin/sh\n", 0o755), "data": "train.py"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory that is not there yet, like the first task's."""
    return tmp_path / "job" / "work" / "worker-0"


def test_source_and_files(tmp_path: Path, work: Path) -> None:
    """As is, under another name, below a folder, and unpacked into a folder; with their modes."""
    cache = cache_at(tmp_path / "c")
    plain = write_tree(tmp_path, {"a.txt": (b"a", 0o640)}) / "a.txt"
    zipped = zip_of(tmp_path / "big.zip", {"x/y": (b"y", 0o755)})
    file = put_file(cache, plain, name="conf/b.txt")
    role = StagedRole(
        items=(
            put_folder(cache, write_tree(tmp_path / "s", SOURCE)),
            StagedItem(digest=file.digest, size=file.size, name="conf/b.txt", placement=Placement.FILE, mode=0o640),
            put_file(cache, zipped, Placement.FOLDER, kind=Format.ZIP),
        )
    )
    assert localize(role, cache.path, work) == Interpreter()
    assert snapshot(work) == snapshot(tmp_path / "s") | {
        "conf": ("folder", 0o755, b""),
        "conf/b.txt": ("file", 0o640, b"a"),
        "big.zip": ("folder", 0o755, b""),
        "big.zip/x": ("folder", 0o755, b""),
        "big.zip/x/y": ("file", 0o755, b"y"),
    }


def test_nothing_at_all(tmp_path: Path, work: Path) -> None:
    """A job without source gets an empty folder."""
    assert localize(StagedRole(), tmp_path / "c", work) == Interpreter()
    assert snapshot(work) == {}


def test_second_call_leaves_the_folder_to_its_programs(tmp_path: Path, work: Path) -> None:
    """A restarted task finds its checkpoints, and what it removed stays removed."""
    cache = cache_at(tmp_path / "c")
    role = StagedRole(items=(put_folder(cache, write_tree(tmp_path / "s", SOURCE)),))
    localize(role, cache.path, work)
    (work / "checkpoint").write_bytes(b"precious")
    (work / "run.sh").unlink()
    before = snapshot(work)
    localize(role, cache.path, work)
    assert snapshot(work) == before


def test_half_laid_folder_is_completed(tmp_path: Path, work: Path) -> None:
    """A crash in the middle leaves no mark, so everything is laid once more, over what is there."""
    cache = cache_at(tmp_path / "c")
    role = StagedRole(items=(put_folder(cache, write_tree(tmp_path / "s", SOURCE)),))
    write_tree(work, {"train.py": (b"pri", 0o600), "run.sh/odd": (b"", 0o644)})
    localize(role, cache.path, work)
    assert snapshot(work) == snapshot(tmp_path / "s")


def test_removed_folder_is_laid_again(tmp_path: Path, work: Path) -> None:
    """The mark lies outside; without the folder it means nothing. Other needs are laid as well."""
    cache = cache_at(tmp_path / "c")
    role = StagedRole(items=(put_folder(cache, write_tree(tmp_path / "s", SOURCE)),))
    localize(role, cache.path, work)
    work.rename(tmp_path / "gone")
    localize(role, cache.path, work)
    assert snapshot(work) == snapshot(tmp_path / "s")
    write_tree(tmp_path / "s", {"more": (b"", 0o644)})
    localize(StagedRole(items=(put_folder(cache, tmp_path / "s"),)), cache.path, work)
    assert "more" in snapshot(work)


def test_files_win_over_the_source(tmp_path: Path, work: Path) -> None:
    """Whatever kind of thing the source has under that name; what a link led to stays as it is."""
    cache = cache_at(tmp_path / "c")
    source: dict[str, Node] = {"a": (b"old", 0o644), "l": "a", "d/x": (b"old", 0o644)}
    plain = write_tree(tmp_path, {"new": (b"new", 0o644)}) / "new"
    names = ("l", "d")
    role = StagedRole(
        items=(
            put_folder(cache, write_tree(tmp_path / "s", source)),
            *(put_file(cache, plain, name=name) for name in names),
        )
    )
    localize(role, cache.path, work)
    assert {path: node[2] for path, node in snapshot(work).items()} == {"a": b"old", "l": b"new", "d": b"new"}


def test_source_may_be_an_archive(tmp_path: Path, work: Path) -> None:
    cache = cache_at(tmp_path / "c")
    archive = pack_tree(tmp_path / "s.tgz", write_tree(tmp_path / "s", SOURCE))
    localize(StagedRole(items=(put_file(cache, archive, Placement.ROOT, kind=Format.TAR_GZ),)), cache.path, work)
    assert snapshot(work) == snapshot(tmp_path / "s")


def test_hostile_archive_is_named(tmp_path: Path, work: Path) -> None:
    """Also when it got past staging; nothing appears outside the folder."""
    cache = cache_at(tmp_path / "c")
    archive = tar_of(tmp_path / "evil.tar", {"../../evil": (b"x", 0o644)})
    with pytest.raises(ArchiveError, match=r"evil\.tar .* member \.\./\.\./evil"):
        localize(StagedRole(items=(put_file(cache, archive, Placement.ROOT, kind=Format.TAR),)), cache.path, work)
    assert not list(tmp_path.rglob("evil"))


def test_missing_object_is_named(tmp_path: Path, work: Path) -> None:
    """An emptied cache is said with what to do."""
    cache = cache_at(tmp_path / "c")
    item = put_file(cache, write_tree(tmp_path, {"a": (b"a", 0o644)}) / "a")
    cache.find_object(item.digest).unlink()
    with pytest.raises(StorageError, match=r"the staged copy of a is missing or damaged.*Submit the job again"):
        localize(StagedRole(items=(item,)), cache.path, work)


def test_work_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "work").write_bytes(b"")
    with pytest.raises(StorageError, match=f"cannot fill {tmp_path}/work/worker-0"):
        localize(StagedRole(), tmp_path / "c", tmp_path / "work" / "worker-0")


@pytest.mark.slow
@settings(max_examples=25)
@given(tree=trees())
def test_every_folder_arrives_as_it_was(tree: dict[str, Node]) -> None:
    """From the source to the working directory: names, modes, links and content."""
    with tempfile.TemporaryDirectory() as place:
        source = write_tree(Path(place) / "s", tree)
        cache = cache_at(Path(place) / "c")
        localize(StagedRole(items=(put_folder(cache, source),)), cache.path, Path(place) / "work")
        assert snapshot(Path(place) / "work") == snapshot(source)


def test_python_on_the_node_does_not_litter(tmp_path: Path, work: Path) -> None:
    """The scripts that make it `python` lie beside the working directory, one pair per task."""
    write_tree(tmp_path / "bin", {"py": (f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode(), 0o755)})
    beside = work.parent / ".localized" / "worker-0" / "bin"
    for _ in range(2):
        result = localize(StagedRole(python=str(tmp_path / "bin" / "py")), tmp_path / "c", work)
        assert result == Interpreter(python_path=(str(beside), str(tmp_path / "bin")))
    assert (snapshot(work), sorted(os.listdir(beside))) == ({}, ["python", "python3"])


@pytest.mark.slow
def test_python_archive(tmp_path: Path, work: Path) -> None:
    """It is unpacked in the cache, not in the working directory."""
    cache = cache_at(tmp_path / "c")
    archive = pack_tree(tmp_path / "env.tar.gz", make_venv(tmp_path / "env"))
    item = put_file(cache, archive, Placement.PYTHON, kind=Format.TAR_GZ)
    result = localize(StagedRole(items=(item,)), cache.path, work)
    prefix = str(cache.unpacked / item.digest)
    assert result == Interpreter(python_path=(f"{prefix}/bin",), python_env={"VIRTUAL_ENV": prefix})
    assert snapshot(work) == {}
