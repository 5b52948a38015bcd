"""Packs a folder into one tar, reproducibly: the same content gives the same bytes.

Members are sorted by their bytes; owner, group and times are constants; nothing depends on the order in which the file
system lists a folder, on the umask or on modification times. Modes are kept, links are kept as links, hard links become
separate files.

The tar is not compressed. Most of what is staged goes to the same machine or over a fast network, where Python's zlib
(30 to 60 MB/s on one core) would be slower than the disk; training data and models hardly shrink; and the bytes would
depend on the version of zlib. A slow transport may compress on the way.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tony.storage.cache.file_copy import share_blocks
from tony.storage.cache.object_cache import CHUNK, FIXED_TIME
from tony.storage.manifest import ManifestEntryKind
from tony.storage.staging import digest_index
from tony.storage.staging.digest_index import Stamp
from tony.storage.staging.folder_scan import ScannedEntry

_RECORD = 512
#: REGTYPE, DIRTYPE and SYMTYPE of a tar's header.
_TYPES = {ManifestEntryKind.FILE: b"0", ManifestEntryKind.FOLDER: b"5", ManifestEntryKind.LINK: b"2"}


class FileChangedError(Exception):
    """A file was removed, replaced or truncated while it was read; `path` names it."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """The content of one file as it was read.

    Attributes:
        digest: SHA-256 of the content.
        stamp: of that content; one that never matches if a later change might not show in it.
    """

    digest: str
    stamp: Stamp


def compute_tree_digest(found: Iterable[ScannedEntry], digests: Mapping[str, str]) -> str:
    """Return a digest over names, kinds, modes, links and contents: folders with the same digest give the same tar.

    Args:
        found: sorted.
        digests: path of a file -> digest of its content.
    """
    whole = hashlib.sha256()
    for f in found:
        text = digests[f.path] if f.kind is ManifestEntryKind.FILE else f.target
        line = f"{f.kind.value}\0{f.mode:o}\0{text}\0{f.path}\0\n"
        whole.update(line.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


class OpenFile:
    """One file, opened to be read once, in its current size: data appended later is left out."""

    def __init__(self, file: int, path: str) -> None:
        self._file = file
        self._path = path
        self._opened_at = digest_index.read_clock()
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FileChangedError(path)
        self._stamp = Stamp.from_status(status)
        self.size = status.st_size  #: bytes that will be read

    def read(self, write: Callable[[bytes], object]) -> ReadFile:
        """Pass the content to `write`, in pieces.

        Raises:
            FileChangedError: it was truncated while it was read.
            OSError: it cannot be read.
        """
        digest, left = hashlib.sha256(), self.size
        while left:
            chunk = os.read(self._file, min(CHUNK, left))
            if not chunk:
                raise FileChangedError(self._path)
            digest.update(chunk)
            write(chunk)
            left -= len(chunk)
        return ReadFile(digest=digest.hexdigest(), stamp=self.stamp())

    def clone_into(self, target: int) -> bool:
        """Share the content's blocks with an empty file (descriptor); return False if not supported."""
        return share_blocks(self._file, target)

    def stamp(self) -> Stamp:
        """Return the stamp for the content that was read since opening."""
        if self._stamp != Stamp.from_status(os.fstat(self._file)):
            return self._stamp.to_unsettled()
        return self._stamp.settle_stamp(self._opened_at)


@contextmanager
def open_file(place: Path, path: str) -> Iterator[OpenFile]:
    """Open a file for the block.

    Args:
        path: its name in FileChangedError.

    Raises:
        FileChangedError: it was removed, or is no longer a file.
        OSError: it cannot be opened.
    """
    try:
        # Non-blocking: a named pipe that replaced the file would block forever.
        file = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise FileChangedError(path) from error
        raise
    try:
        yield OpenFile(file, path)
    finally:
        os.close(file)


def pack(root: Path, found: Iterable[ScannedEntry], write: Callable[[bytes], object]) -> dict[str, ReadFile]:
    """Write the tar of a folder.

    Args:
        found: sorted, every folder before its contents.
        write: gets the tar, in pieces.

    Returns:
        Path of each file -> what was read.

    Raises:
        FileChangedError: the folder is being changed; scan again.
        OSError: something cannot be read or written.
    """
    contents = {}
    for f in found:
        if f.kind is ManifestEntryKind.FILE:
            with open_file(root / f.path, f.path) as file:
                write(_header(f, file.size))
                contents[f.path] = file.read(write)
                write(bytes(-file.size % _RECORD))
        else:
            write(_header(f, 0))
    write(bytes(2 * _RECORD))
    return contents


def estimate_packed_size(found: Iterable[ScannedEntry]) -> int:
    """Return the approximate size of the tar in bytes."""
    return sum(f.size + 2 * _RECORD for f in found)


def _header(f: ScannedEntry, size: int) -> bytes:
    import tarfile  # late: it loads every compression module, and most submissions pack nothing

    info = tarfile.TarInfo(f.path)
    info.type = _TYPES[f.kind]
    info.mode, info.size, info.linkname, info.mtime = f.mode, size, f.target, FIXED_TIME
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
