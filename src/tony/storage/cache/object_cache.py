"""The content-addressed cache: every staged object once, whatever the number of jobs that use it.

    <cache>/
      <sha256>                an object: exactly the bytes that the name is the SHA-256 of
      .<random>.part          an object that is being written
      .<random>.taken         an object from elsewhere on this machine that is being added (`Cache.take`)
      index/                  digests of files outside, so that unchanged ones need not be read (digest_index.py)
      trees/<sha256>/         an archive, unpacked: content/ and manifest.json (unpack_cache.py)
      unpacked/<sha256>/      an interpreter's archive, unpacked and ready to run (environments/environment_cache.py)
      locks/                  one empty file per thing that is unpacked once

An object appears complete, by a rename inside one folder, and is never written again. It is not synced to disk (fsync):
it can always be created again from its source, and what a crash of the machine may leave, a short or empty file, is
detected by its size and replaced. Its modification time is a constant, so later writes are detected too; its SHA-256 is
compared whenever it is unpacked. An object with more than one hard link is in use by a job.

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
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError
from tony.linux.disk_errors import explain_os_error, require_free_space
from tony.linux.liveness_lock import is_held
from tony.model.staged_files import StagedItem
from tony.storage.cache.file_copy import copy_file

#: Modification time of every object and of everything that is packed: 2000-01-01 UTC. A time that zip can represent
#: (from 1980 on), so that programs can pack their own working directory.
FIXED_TIME = 946684800

CHUNK = 1024 * 1024
#: Seconds since the last write after which an unlocked part belongs to a killed process.
_STALE_SECONDS = 60.0
#: The same where locks do not work.
_STALE_WITHOUT_LOCKS_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object in the cache.

    Attributes:
        digest: its SHA-256 and its name.
        size: bytes.
        reused: it existed before, nothing was written.
    """

    digest: str
    size: int
    reused: bool = False


class ObjectWriter:
    """Writes one object and computes its name meanwhile."""

    def __init__(self, cache: Cache, part: Path, file: int) -> None:
        self._cache = cache
        self._part = part
        self.file = file  #: descriptor of the part
        self._hash = hashlib.sha256()
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        self._count(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]

    def adopt(self) -> None:
        """Use the content that another writer put into the part (by sharing blocks with another file)."""
        while chunk := os.read(self.file, CHUNK):
            self._count(chunk)

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)

    def commit(self) -> Stored:
        """Give the object its name. An existing object stays unchanged."""
        digest = self._hash.hexdigest()
        if self._cache.has(digest, self._size):
            return Stored(digest=digest, size=self._size, reused=True)
        os.fchmod(self.file, 0o400)
        os.utime(self.file, (FIXED_TIME, FIXED_TIME))
        os.replace(self._part, self._cache.find_object(digest))
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
        """Digests of files outside the cache."""
        return self.path / "index"

    def prepare(self) -> None:
        """Create the folders and remove half-written objects of killed processes.

        Raises:
            StorageError: the cache cannot be created or written.
        """
        with explain_os_error(f"prepare the cache {self.path}", self.path):
            self._make_folders()
            self._remove_stale_parts()

    def find_object(self, digest: str) -> Path:
        """Return the path of an object, whether or not it exists."""
        return self.path / digest

    def has(self, digest: str, size: int) -> bool:
        """Return True if the object exists and is unmodified according to its attributes."""
        try:
            status = os.lstat(self.find_object(digest))
        except FileNotFoundError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size and status.st_mtime == FIXED_TIME

    def require(self, digest: str, size: int, name: str) -> Path:
        """Return the path of an object to read.

        Raises:
            StorageError: it is missing or damaged.
        """
        if not self.has(digest, size):
            raise self.build_missing_object_error(digest, name)
        return self.find_object(digest)

    def take(self, digest: str, file: Path) -> None:
        """Add an object that is already on this machine, by a hard link if possible.

        Raises:
            OSError: the file system refuses.
        """
        # Not `.part`: with its old modification time it would be removed as a stale one.
        part = self.path / f".{os.urandom(8).hex()}.taken"
        try:
            _link_or_copy(file, part)
            os.replace(part, self.find_object(digest))
        finally:
            part.unlink(missing_ok=True)

    def build_missing_object_error(self, digest: str, name: str) -> StorageError:
        """Return the error for an object that cannot be used; `name` is its source."""
        return StorageError(
            f"the staged copy of {name} is missing or damaged ({self.find_object(digest)}). Submit the job again "
            "to restore it."
        )

    def verify(self, item: StagedItem) -> Path:
        """Return the object of a staged item, after comparing its SHA-256 if its digest is that of the content.

        Raises:
            StorageError: it is missing or damaged; one with another content is removed.
        """
        path = self.require(item.digest, item.size, item.name)
        if item.in_place is not None:
            return path
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == item.digest:
                return path
        path.unlink(missing_ok=True)
        raise self.build_missing_object_error(item.digest, item.name)

    @contextmanager
    def open_writer(self, doing: str, needed: int) -> Iterator[ObjectWriter]:
        """Write a new object in the block; without `commit` in it nothing is left.

        Args:
            doing: for messages, to follow "cannot".
            needed: bytes it will take.

        Raises:
            StorageError: the file system refuses.
        """
        require_free_space(doing, self.path, needed)
        part = self.path / f".{os.urandom(8).hex()}.part"
        with explain_os_error(doing, self.path, needed):
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process exits
                yield ObjectWriter(self, part, file)
            finally:
                os.close(file)
                part.unlink(missing_ok=True)

    def link(self, digest: str, folder: Path) -> None:
        """Keep an object for a job by a hard link in the job's folder (a copy where that is not possible).

        Neither side is ever written to, so sharing one file is safe.
        """
        with suppress(FileExistsError):
            _link_or_copy(self.find_object(digest), folder / digest)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock for one process (and thread) at a time; wait for it. Released if its holder dies."""
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
            parts = [
                e for e in entries if e.name.endswith(".part") and time.time() - _read_change_time(e) > _STALE_SECONDS
            ]
        for entry in parts:
            if _is_abandoned(entry):
                Path(entry.path).unlink(missing_ok=True)


def _is_abandoned(part: os.DirEntry[str]) -> bool:
    """Return True if no process is writing to it."""
    try:
        return not is_held(Path(part.path))
    except FileNotFoundError:  # finished meanwhile
        return False
    except OSError:
        return time.time() - _read_change_time(part) > _STALE_WITHOUT_LOCKS_SECONDS


def _read_change_time(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # finished meanwhile
        return time.time()


def _link_or_copy(source: Path, target: Path) -> None:
    """Create `target` as a hard link to `source`, or as a copy of it.

    Raises:
        FileExistsError: it exists already.
        OSError: the file system refuses.
    """
    try:
        os.link(source, target)
        os.utime(target, (FIXED_TIME, FIXED_TIME))
    except FileExistsError:
        raise
    except OSError:  # another disk, or another owner
        target.unlink(missing_ok=True)
        copy_file(str(source), str(target), mode=0o400, size=source.stat().st_size, mtime=FIXED_TIME)
