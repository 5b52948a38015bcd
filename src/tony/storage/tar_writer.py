"""Packs a folder into one tar, the same bytes for the same content whoever packs it, when and where.

Members are sorted by their bytes; owner, group and times are constants; nothing depends on the order in which the file
system lists a folder, on the umask or on modification times. Modes are kept, links are kept as links, hard links become
files of their own.

The tar is not compressed. Most of what is staged goes to the same machine or over a fast network, where Python's zlib
(30 to 60 MB/s on one core) would be slower than the disk; training data and models hardly shrink; and the bytes would
depend on the version of zlib. A transport that is slow may compress on its way.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tony.dataclass import dataclass
from tony.storage import digest_index
from tony.storage.digest_index import Stamp
from tony.storage.file_copy import Copier
from tony.storage.folder_scan import ScannedEntry
from tony.storage.manifest import ManifestEntryKind
from tony.storage.object_cache import CHUNK, FIXED_TIME

_RECORD = 512
#: REGTYPE, DIRTYPE and SYMTYPE of a tar's header.
_TYPES = {ManifestEntryKind.FILE: b"0", ManifestEntryKind.FOLDER: b"5", ManifestEntryKind.LINK: b"2"}


class FileChangedError(Exception):
    """A file went away, or became something else or shorter, while it was read; `path` names it."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """The content of one file as it was read.

    Attributes:
        digest: SHA-256 of the content.
        stamp: of that content; one that fits nothing if a later change might not show in it.
    """

    digest: str
    stamp: Stamp


def tree_digest(found: Iterable[ScannedEntry], digests: Mapping[str, str]) -> str:
    """One digest over names, kinds, modes, links and contents: two folders with the same one give the same tar.

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
    """One file, opened to be read once, as it is at this moment: what is appended later is left out."""

    def __init__(self, file: int, path: str) -> None:
        self._file = file
        self._path = path
        self._opened_at = digest_index.now()
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FileChangedError(path)
        self._stamp = Stamp.of(status)
        self.size = status.st_size  #: bytes that will be read

    def read(self, write: Callable[[bytes], object]) -> ReadFile:
        """Passes the content on, in pieces.

        Raises:
            FileChangedError: it was cut off while it was read.
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
        """Shares the content with an empty file (descriptor) instead; False where the file system cannot."""
        return Copier().clone(self._file, target)

    def stamp(self) -> Stamp:
        """What to remember the content by that was read from opening until now."""
        if self._stamp != Stamp.of(os.fstat(self._file)):
            return self._stamp.unsettled()
        return self._stamp.settled(self._opened_at)


@contextmanager
def opened(place: Path, path: str) -> Iterator[OpenFile]:
    """Opens a file for the block.

    Args:
        path: what FileChangedError shall name.

    Raises:
        FileChangedError: it is gone, or no longer a file.
        OSError: it cannot be opened.
    """
    try:
        # Not waiting: a named pipe that took the file's place would hold us for ever.
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
    """Writes the tar of a folder.

    Args:
        found: sorted, every folder before what is in it.
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
            with opened(root / f.path, f.path) as file:
                write(_header(f, file.size))
                contents[f.path] = file.read(write)
                write(bytes(-file.size % _RECORD))
        else:
            write(_header(f, 0))
    write(bytes(2 * _RECORD))
    return contents


def packed_size(found: Iterable[ScannedEntry]) -> int:
    """About how many bytes the tar will have."""
    return sum(f.size + 2 * _RECORD for f in found)


def _header(f: ScannedEntry, size: int) -> bytes:
    import tarfile  # it loads every compressor; most submissions find nothing new to pack

    info = tarfile.TarInfo(f.path)
    info.type = _TYPES[f.kind]
    info.mode, info.size, info.linkname, info.mtime = f.mode, size, f.target, FIXED_TIME
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
