"""The content-addressed cache: every staged object once, whatever the number of jobs that use it.

    <cache>/
      <sha256>                an object: exactly the bytes that the name is the SHA-256 of
      .<random>.part          an object that is being written
      .<random>.taken         one that is brought from elsewhere on this machine (`Cache.take`)
      index/                  what we know of files outside, so that unchanged ones need not be read (index.py)
      trees/<sha256>/         an archive, unpacked: content/ and manifest.json (unpack_cache.py)
      unpacked/<sha256>/      an interpreter's archive, unpacked and ready to run (python_interpreters.py)
      locks/                  one empty file per thing that is unpacked once

An object appears whole, by a rename inside one folder, and is never written again. It is not forced to disk (fsync):
it can always be made again from its source, and what a crash of the machine may leave, a short or empty file, is
noticed by its size and replaced. Its modification time is a constant, so one that somebody wrote into is noticed too;
its SHA-256 is compared whenever it is unpacked. An object with more than one hard link is in use by a job.

The folder is flat: it holds thousands of objects, not millions.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import StorageError
from tony.model.staged import StagedItem
from tony.storage.disk_errors import explain_os_error, require_room
from tony.storage.file_copy import Copier

#: Modification time of every object and of everything we pack: 2000-01-01 UTC. A time that zip can hold (it begins in
#: 1980), so that programs can pack their own working directory.
FIXED_TIME = 946684800

CHUNK = 1024 * 1024
#: A part that nobody holds and nobody has written to for this long belongs to a process that was killed; where locks
#: do not work, one that nobody has written to for much longer. Seconds.
_STALE, _STALE_UNLOCKED = 60.0, 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object that is in the cache.

    Attributes:
        digest: its SHA-256 and its name.
        size: bytes.
        reused: it was there before, nothing was written.
    """

    digest: str
    size: int
    reused: bool = False


class ObjectWriter:
    """Takes the bytes of one object and computes its name meanwhile."""

    def __init__(self, cache: Cache, part: Path, file: int) -> None:
        self._cache = cache
        self._part = part
        self.file = file  #: descriptor of the part
        self._hash = hashlib.sha256()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    def write(self, data: bytes) -> None:
        """Appends bytes."""
        self._count(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]

    def adopt(self) -> None:
        """Takes what somebody else put into the part (its blocks shared with another file) as the content."""
        while chunk := os.read(self.file, CHUNK):
            self._count(chunk)

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)

    def commit(self) -> Stored:
        """Gives the object its name. One that is there already stays as it is."""
        digest = self._hash.hexdigest()
        if self._cache.has(digest, self._size):
            return Stored(digest=digest, size=self._size, reused=True)
        os.fchmod(self.file, 0o400)
        os.utime(self.file, (FIXED_TIME, FIXED_TIME))
        os.replace(self._part, self._cache.object(digest))
        return Stored(digest=digest, size=self._size)


@dataclass(frozen=True, slots=True)
class Cache:
    """One user's cache. Any number of processes may use it at once."""

    path: Path

    @property
    def trees(self) -> Path:
        """Unpacked archives."""
        return self.path / "trees"

    @property
    def unpacked(self) -> Path:
        """Unpacked interpreters."""
        return self.path / "unpacked"

    @property
    def index(self) -> Path:
        """What we know of files outside the cache."""
        return self.path / "index"

    def prepare(self) -> None:
        """Makes the folders and removes what killed processes left half-written.

        Raises:
            StorageError: the cache cannot be made or written.
        """
        with explain_os_error(f"prepare the cache {self.path}", self.path):
            self._make_folders()
            self._remove_stale_parts()

    def object(self, digest: str) -> Path:
        """Where an object is, if it is there."""
        return self.path / digest

    def has(self, digest: str, size: int) -> bool:
        """Whether the object is there and nothing says that it is not what its name says."""
        try:
            status = os.lstat(self.object(digest))
        except FileNotFoundError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size and status.st_mtime == FIXED_TIME

    def require(self, digest: str, size: int, name: str) -> Path:
        """The object, to be read.

        Raises:
            StorageError: it is missing or not whole.
        """
        if not self.has(digest, size):
            raise self.missing(digest, name)
        return self.object(digest)

    def take(self, digest: str, file: Path) -> None:
        """Takes an object that somebody else brought to this machine, under its own roof as far as possible.

        Raises:
            OSError: the file system says no.
        """
        # No `.part`: its time of modification is long ago, so to whoever removes stale ones it would be one of them.
        part = self.path / f".{os.urandom(8).hex()}.taken"
        try:
            try:
                os.link(file, part)
                os.utime(part, (FIXED_TIME, FIXED_TIME))
            except OSError:  # another disk, or another owner
                part.unlink(missing_ok=True)
                Copier().copy(str(file), str(part), mode=0o400, size=file.stat().st_size, mtime=FIXED_TIME)
            os.replace(part, self.object(digest))
        finally:
            part.unlink(missing_ok=True)

    def missing(self, digest: str, name: str) -> StorageError:
        """The error for an object that cannot be used; `name` is what it was made of."""
        return StorageError(
            f"the staged copy of {name} is missing or damaged ({self.object(digest)}). Submit the job again; "
            "that puts it back."
        )

    def verify(self, digest: str, size: int, name: str) -> Path:
        """The object, after reading all of it and comparing its SHA-256; a wrong one is removed.

        Raises:
            StorageError: it is missing or damaged.
        """
        path = self.require(digest, size, name)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                return path
        path.unlink(missing_ok=True)
        raise self.missing(digest, name)

    def intact(self, item: StagedItem) -> Path:
        """The object of a staged item, found to be what its name says, as far as the name says it.

        Raises:
            StorageError: it is missing or damaged.
        """
        if item.in_place is not None:
            return self.require(item.digest, item.size, item.name)
        return self.verify(item.digest, item.size, item.name)

    @contextmanager
    def writing(self, doing: str, needed: int) -> Iterator[ObjectWriter]:
        """A new object, written in the block; without `commit` in it nothing is left.

        Args:
            doing: for messages: `stage data.npz`.
            needed: bytes it will take.

        Raises:
            StorageError: the file system says no.
        """
        require_room(doing, self.path, needed)
        part = self.path / f".{os.urandom(8).hex()}.part"
        with explain_os_error(doing, self.path, needed):
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as long as we live
                yield ObjectWriter(self, part, file)
            finally:
                os.close(file)
                part.unlink(missing_ok=True)

    def link(self, digest: str, folder: Path) -> None:
        """Keeps an object for a job by a hard link in the job's folder (a copy where there are none).

        Both sides are ours and nobody writes to them, so sharing one file is safe.
        """
        target = folder / digest
        with suppress(FileExistsError):
            try:
                os.link(self.object(digest), target)
            except FileExistsError:
                raise
            except OSError:
                size = self.object(digest).stat().st_size
                Copier().copy(str(self.object(digest)), str(target), mode=0o400, size=size, mtime=FIXED_TIME)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Held by one process (and thread) at a time; waits for it. Dies with its holder."""
        folder = self.path / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _make_folders(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.index, self.trees, self.unpacked):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _remove_stale_parts(self) -> None:
        with os.scandir(self.path) as entries:
            parts = [e for e in entries if e.name.endswith(".part") and time.time() - _changed(e) > _STALE]
        for entry in parts:
            if _is_abandoned(entry):
                Path(entry.path).unlink(missing_ok=True)


def _is_abandoned(part: os.DirEntry[str]) -> bool:
    """Whether nobody writes to it any more."""
    try:
        file = os.open(part.path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # finished meanwhile
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return time.time() - _changed(part) > _STALE_UNLOCKED
    finally:
        os.close(file)
    return True


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # finished meanwhile
        return time.time()
