"""Unpacks an archive once per node and content, and gives each task its own copy.

    <cache>/trees/<sha256>/
      content/          the archive's content
      manifest.json     its list, with the intended modes

Copies share their blocks with `content/` where the file system supports that. The list makes copying fast, and a tree
that a crash of the machine left incomplete is detected while it is copied (sizes), discarded and unpacked again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError
from tony.linux.disk_errors import explain_os_error
from tony.model.staged_files import StagedItem
from tony.storage import manifest
from tony.storage.archives.archive_detection import Format
from tony.storage.cache.file_copy import SourceChangedError, copy_folder, remove_tree
from tony.storage.cache.object_cache import Cache
from tony.storage.manifest import ManifestEntry

_CONTENT = "content"
_LIST = "manifest.json"
#: How often a damaged tree is unpacked again for one task.
_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedTree:
    """An unpacked archive in the cache; never written to.

    Attributes:
        made: inode and modification time of its list, which identify this unpacking.
    """

    content: Path
    entries: tuple[ManifestEntry, ...]
    made: tuple[int, int]


def copy_tree_for_task(cache: Cache, item: StagedItem, target: Path) -> None:
    """Copy the content of an archive into `target`, an existing folder of a task.

    Raises:
        ArchiveError: the archive cannot be unpacked.
        StorageError: the file system refuses, or the staged archive is damaged.
    """
    doing = f"copy {item.name} into {target}"
    with explain_os_error(doing, target):
        for _ in range(_MAX_ATTEMPTS):
            tree = _ensure(cache, item)
            try:
                copy_folder(tree.content, tree.entries, target)
                return
            except SourceChangedError:
                _discard(cache, item.digest, tree)
    raise StorageError(
        f"cannot {doing}: its unpacked copy in {cache.trees} keeps changing. Do not write to that folder."
    )


def _ensure(cache: Cache, item: StagedItem) -> UnpackedTree:
    tree = _load(cache, item.digest)
    if tree is None:
        with cache.lock(f"tree-{item.digest}"):
            tree = _load(cache, item.digest) or _unpack(cache, item)
    return tree


def _load(cache: Cache, digest: str) -> UnpackedTree | None:
    folder = cache.trees / digest
    try:
        return _tree(folder, manifest.load(folder / _LIST))
    except (OSError, ValueError):
        return None


def _unpack(cache: Cache, item: StagedItem) -> UnpackedTree:
    """Unpack next to the final place, then rename; the caller holds the lock."""
    # Late: only the first task with a new archive needs them, and they would slow down every start of an AM.
    from tony.storage.archives.unpack import unpack  # late: only the first task with a new archive needs it

    final = cache.trees / item.digest
    cache.trees.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_leftovers(cache.trees, item.digest)
    archive = cache.verify(item)
    part = cache.trees / f".{item.digest}.{os.urandom(4).hex()}"
    try:
        with explain_os_error(f"unpack {item.name}", cache.trees):
            content = part / _CONTENT
            content.mkdir(mode=0o700, parents=True)
            entries = unpack(archive, Format(item.suffix), content, item.name, outside_links=False)
            manifest.save(part / _LIST, entries)
            os.rename(part, final)
            return _tree(final, entries)
    except BaseException:
        remove_tree(part)
        raise


def _tree(folder: Path, entries: tuple[ManifestEntry, ...]) -> UnpackedTree:
    status = os.stat(folder / _LIST)
    return UnpackedTree(content=folder / _CONTENT, entries=entries, made=(status.st_ino, status.st_mtime_ns))


def remove_leftovers(folder: Path, digest: str) -> None:
    """Remove what a killed unpacker left; the caller holds the lock, so none is running.

    Raises:
        OSError: something cannot be removed.
    """
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.name == digest or entry.name.startswith(f".{digest}.")]
    for path in left:
        remove_tree(Path(path))


def _discard(cache: Cache, digest: str, damaged: UnpackedTree) -> None:
    with cache.lock(f"tree-{digest}"):
        now = _load(cache, digest)
        if now is None or now.made == damaged.made:  # else another process has replaced it meanwhile
            remove_leftovers(cache.trees, digest)
