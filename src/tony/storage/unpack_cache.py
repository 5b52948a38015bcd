"""Unpacks an archive once per node and content, and gives each task a copy of its own.

    <cache>/trees/<sha256>/
      content/          what was in the archive
      manifest.json     the list of it, with the modes it shall have

Copies share their blocks with `content/` where the file system can do that. The list makes copying quick, and a tree
that a crash of the machine left incomplete is noticed while it is copied (sizes), thrown away and unpacked again.
"""

from __future__ import annotations

import os
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import StorageError
from tony.model.staged import StagedItem
from tony.storage import manifest
from tony.storage.disk_errors import explain_os_error
from tony.storage.file_copy import Copier, SourceChangedError, copy_folder, remove_tree
from tony.storage.manifest import ManifestEntry
from tony.storage.object_cache import Cache

_CONTENT = "content"
_LIST = "manifest.json"
#: How often a tree that turns out damaged is unpacked again for one task.
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedTree:
    """An unpacked archive in the cache; nobody writes to it.

    Attributes:
        made: inode and change time of its list: another unpacking of the same archive has others.
    """

    content: Path
    entries: tuple[ManifestEntry, ...]
    made: tuple[int, int]


def copy_tree_for_task(cache: Cache, item: StagedItem, target: Path, copier: Copier) -> None:
    """Gives a task its copy of what an archive holds, in `target`, a folder that exists.

    Raises:
        ArchiveError: the archive cannot be unpacked.
        StorageError: the file system says no, or the staged archive is damaged.
    """
    doing = f"lay {item.name} into {target}"
    with explain_os_error(doing, target):
        for _ in range(_TRIES):
            tree = _ensure(cache, item)
            try:
                copy_folder(tree.content, tree.entries, target, copier)
                return
            except SourceChangedError:
                _discard(cache, item.digest, tree)
    raise StorageError(f"cannot {doing}: its unpacked copy in {cache.trees} keeps changing. Nobody may write there.")


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
    """Under the lock: unpacks beside the final place, then renames."""
    # Only for the first task with a new archive; every start of an application master would pay for it.
    from tony.storage.archive_format import Format
    from tony.storage.unpack import unpack

    final = cache.trees / item.digest
    cache.trees.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_leftovers(cache.trees, item.digest)
    archive = cache.intact(item)
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
    """Removes what an unpacker that was killed left; the caller holds the lock, so none is at work.

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
        if now is None or now.made == damaged.made:  # or else somebody has mended it meanwhile
            remove_leftovers(cache.trees, digest)
