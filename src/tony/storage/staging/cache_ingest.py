"""Puts folders and files into the cache, reading only what changed, and notes which archives were found valid."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tony.linux.disk_errors import explain_os_error
from tony.storage.cache.object_cache import CHUNK, Cache, Stored
from tony.storage.manifest import ManifestEntryKind
from tony.storage.staging import digest_index as indexes
from tony.storage.staging.digest_index import DigestIndex, Stamp
from tony.storage.staging.folder_scan import Scan
from tony.storage.staging.remote_files_interface import RemoteFile, RemoteFiles
from tony.storage.staging.tar_writer import (
    FileChangedError,
    ReadFile,
    compute_tree_digest,
    estimate_packed_size,
    open_file,
    pack,
)

#: Attempts to pack a folder that changes meanwhile.
_MAX_ATTEMPTS = 3


def store_folder(cache: Cache, scan: Scan, rescan: Callable[[], Scan], name: str) -> Stored:
    """Store a folder in the cache as one tar.

    An unchanged folder costs one walk: its digest is computed from the index, without reading files.

    Args:
        rescan: scans the folder again if it changed meanwhile.
        name: its name in messages.

    Raises:
        FileChangedError: the folder changes faster than it can be packed.
        StorageError: the file system refuses.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return _store_folder(cache, scan, name)
        except FileChangedError:
            scan = rescan()
    return _store_folder(cache, scan, name)


def store_file(cache: Cache, path: Path, name: str) -> Stored:
    """Store one file in the cache unchanged.

    Raises:
        FileChangedError: it was truncated while it was read.
        StorageError: the file system refuses.
    """
    with explain_os_error(f"stage {name}", cache.path):
        stamp = Stamp.from_status(os.stat(path))
        index = indexes.load(cache.index, path)
        digest = index.find_digest("", stamp)
        if digest is not None and cache.has(digest, stamp.size):
            return Stored(digest=digest, size=stamp.size, reused=True)
        if index.object_size == stamp.size and cache.has(index.object_digest, stamp.size):
            read = _read(path.parent, path.name)  # perhaps only touched: reading is cheaper than copying
            if read.digest == index.object_digest:
                indexes.save(cache.index, path, replace(index, files=_stamps({"": read})))
                return Stored(digest=read.digest, size=stamp.size, reused=True)
        stored, read = _copy_in(cache, path, name, stamp.size)
        new = DigestIndex(files=_stamps({"": read}), object_digest=stored.digest, object_size=stored.size)
        indexes.save(cache.index, path, new)
        return stored


def store_remote_file(cache: Cache, found: RemoteFile, files: RemoteFiles) -> Stored:
    """Fetch a file of a cluster's file system into the cache, unless it is unchanged since it was last fetched.

    Raises:
        FileChangedError: it was rewritten while it was read.
        StorageError: the local file system refuses.
        TonyError: the remote file system does not answer.
        ValueError: it may not be read, or no longer exists.
    """
    with explain_os_error(f"fetch {found.name}", cache.path):
        place = Path(found.address)
        stamp = Stamp(found.size, found.timestamp * 1_000_000, 0, 1)
        digest = indexes.load(cache.index, place).find_digest("", stamp)
        if digest is not None and cache.has(digest, found.size):
            return Stored(digest=digest, size=found.size, reused=True)
        with cache.open_writer(f"fetch {found.name}", found.size) as writer, files.open(found) as source:
            while data := source.read(CHUNK):
                writer.write(data)
            if writer.size != found.size:
                raise FileChangedError(found.address)
            stored = writer.commit()
        new = DigestIndex(files={"": (stamp, stored.digest)}, object_digest=stored.digest, object_size=stored.size)
        indexes.save(cache.index, place, new)
        return stored


def is_checked(cache: Cache, path: Path, digest: str, use: str) -> bool:
    """Return True if an archive with this content was found valid for a use (a value of Placement)."""
    index = indexes.load(cache.index, path)
    return index.object_digest == digest and use in index.checked


def set_checked(cache: Cache, path: Path, digest: str, use: str) -> None:
    """Store that an archive is valid for a use."""
    index = indexes.load(cache.index, path)
    if index.object_digest == digest:
        with explain_os_error(f"write to the cache {cache.path}", cache.path):
            indexes.save(cache.index, path, replace(index, checked=(*index.checked, use)))


def _store_folder(cache: Cache, scan: Scan, name: str) -> Stored:
    with explain_os_error(f"stage {name}", cache.path):
        index = indexes.load(cache.index, scan.root)
        if cache.has(index.object_digest, index.object_size) and _has_same_sizes(scan, index):
            known, read = _contents(scan, index)
            if compute_tree_digest(scan.found, known) == index.tree:
                if read:
                    files = {**index.files, **_stamps(read)}
                    indexes.save(cache.index, scan.root, replace(index, files=files))
                return Stored(digest=index.object_digest, size=index.object_size, reused=True)
        with cache.open_writer(f"stage {name}", estimate_packed_size(scan.found)) as writer:
            read = pack(scan.root, scan.found, writer.write)
            stored = writer.commit()
        tree = compute_tree_digest(scan.found, {path: content.digest for path, content in read.items()})
        new = DigestIndex(files=_stamps(read), tree=tree, object_digest=stored.digest, object_size=stored.size)
        indexes.save(cache.index, scan.root, new)
        return stored


def _has_same_sizes(scan: Scan, index: DigestIndex) -> bool:
    """Return True if names and sizes are unchanged; only then is reading before packing worthwhile."""
    sizes = {path: stamp.size for path, (stamp, _) in index.files.items()}
    return sizes == {f.path: f.size for f in scan.found if f.kind is ManifestEntryKind.FILE}


def _contents(scan: Scan, index: DigestIndex) -> tuple[dict[str, str], dict[str, ReadFile]]:
    """Return the digest of every file, and the files that had to be read for it."""
    digests, read = {}, {}
    for f in scan.found:
        if f.stamp is None:
            continue
        digest = index.find_digest(f.path, f.stamp)
        if digest is None:
            read[f.path] = _read(scan.root, f.path)
            digest = read[f.path].digest
        digests[f.path] = digest
    return digests, read


def _read(root: Path, path: str) -> ReadFile:
    with open_file(root / path, path) as source:
        return source.read(lambda _: None)


def _stamps(read: Mapping[str, ReadFile]) -> dict[str, tuple[Stamp, str]]:
    return {path: (content.stamp, content.digest) for path, content in read.items()}


def _copy_in(cache: Cache, path: Path, name: str, size: int) -> tuple[Stored, ReadFile]:
    with cache.open_writer(f"stage {name}", size) as writer, open_file(path, name) as source:
        if source.clone_into(writer.file):
            writer.adopt()
            stored = writer.commit()
            return stored, ReadFile(digest=stored.digest, stamp=source.stamp())
        read = source.read(writer.write)
        return writer.commit(), read
