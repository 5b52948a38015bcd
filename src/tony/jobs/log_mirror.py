"""Copies of log files that lie on other machines, in the job's `logs/` here, under the same names.

A copy is written by one process at a time (a lock for each stream), only ever appended to, and begun anew where its
original was: so it takes no more room than that one, and whoever reads it sees what a reader of the original would.
Beside the copies lie, hidden:

    .lock             one byte for each stream, locked by who writes its copies
    .complete         streams of which everything is here, one a line
    .<name>.start     for a file that was begun anew: how many bytes its program had printed before
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import StorageError, TonyError
from tony.history.json_files import read_json, write_json
from tony.jobs.log_names import LogName

#: As `struct flock` of Linux with 64-bit offsets: type, whence, start, length, pid.
_FLOCK = "hhqqi0q"


@dataclass(slots=True)
class _Copy:
    """A file here.

    Attributes:
        start: bytes that its program had printed before its first one.
        size: bytes.
    """

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Mirror:
    """The copies of one job. To be closed.

    Args:
        folder: the job's `logs/`.

    Raises:
        StorageError: it cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[LogName, _Copy] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{folder} cannot be written to: {error.strerror}") from error

    def close(self) -> None:
        """Gives back every lock. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # --- who writes -----------------------------------------------------------------------------------------------

    def take(self, number: int) -> bool:
        """Makes us the writer of a stream, by its number among the job's; False if another process is.

        Raises:
            OSError: there is no locking in this file system.
        """
        try:
            self._set(fcntl.F_WRLCK, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def leave(self, number: int) -> None:
        """Others may write that stream."""
        self._set(fcntl.F_UNLCK, number)

    def _set(self, kind: int, number: int) -> None:
        fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0))

    # --- what is here ---------------------------------------------------------------------------------------------

    def end(self, name: LogName) -> int:
        """How many bytes the program had printed when its copy ends."""
        return self._copy(name).end

    def forget(self, name: LogName) -> None:
        """Another process may have written it since we looked last."""
        self._copies.pop(name, None)

    def is_rotated(self, name: LogName) -> bool:
        """Whether it was begun anew."""
        return name.rotated(self._folder).exists() or self._note(name).exists()

    def sizes(self, name: LogName) -> tuple[int, int]:
        """Bytes here of the older file and of the newer one."""
        return _size(name.rotated(self._folder)), _size(self._folder / name.file)

    def remove(self, name: LogName) -> None:
        """Begins a copy anew from nothing."""
        self._copies.pop(name, None)
        for path in (self._folder / name.file, name.rotated(self._folder), self._note(name)):
            path.unlink(missing_ok=True)

    def write(self, name: LogName, start: int, offset: int, data: bytes) -> None:
        """Adds a piece; what is here already is left out.

        Args:
            start: of the original file, and `offset` of the data: bytes that the program had printed before.

        Raises:
            OSError, StorageError: the disk refuses.
        """
        copy = self._copy(name)
        data = data[max(0, copy.end - offset) :]
        if not data:
            return
        offset = max(offset, copy.end)
        if offset > copy.end or (offset == start and copy.start < start):
            copy = self._begin(name, offset)
        path = self._folder / name.file
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                written = os.write(descriptor, rest)
                copy.size += written
                rest = rest[written:]
        finally:
            os.close(descriptor)

    def _copy(self, name: LogName) -> _Copy:
        found = self._copies.get(name)
        if found is None:
            found = self._copies[name] = self._look(name)
        return found

    def _look(self, name: LogName) -> _Copy:
        starts = self._starts(name)
        newer, older = _stat(self._folder / name.file), _stat(name.rotated(self._folder))
        if newer:
            return _Copy(starts.get(str(newer.st_ino), 0), newer.st_size)
        if older:  # who began the newer one was ended in the middle of it
            return _Copy(starts.get(str(older.st_ino), 0) + older.st_size, 0)
        return _Copy(0, 0)

    def _begin(self, name: LogName, start: int) -> _Copy:
        """Begins the newer file anew. Whatever ends us on the way, the next one knows where each file starts."""
        path, draft = self._folder / name.file, self._folder / f".{name.file}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        before = _stat(path)
        starts = self._starts(name)
        kept = {} if before is None else {str(before.st_ino): starts.get(str(before.st_ino), 0)}
        write_json(self._note(name), {**kept, str(inode): start})
        if before and before.st_size:
            os.replace(path, name.rotated(self._folder))
        os.replace(draft, path)
        made = self._copies[name] = _Copy(start, 0)
        return made

    def _starts(self, name: LogName) -> dict[str, int]:
        try:
            found = read_json(self._note(name))
        except TonyError:
            return {}
        return {key: value for key, value in found.items() if isinstance(value, int)} if isinstance(found, dict) else {}

    def _note(self, name: LogName) -> Path:
        return self._folder / f".{name.file}.start"


def complete(folder: Path) -> frozenset[str]:
    """The streams (`worker:0 out`) of which everything is here."""
    try:
        return frozenset((folder / ".complete").read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return frozenset()


def note_complete(folder: Path, streams: Iterable[str]) -> None:
    """Notes that everything of these streams is here."""
    text = "".join(f"{stream}\n" for stream in streams)
    if text:
        with contextlib.suppress(OSError), (folder / ".complete").open("a", encoding="utf-8") as file:
            file.write(text)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _size(path: Path) -> int:
    found = _stat(path)
    return found.st_size if found else 0
