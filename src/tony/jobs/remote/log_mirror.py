"""Local copies of log files on other machines, in the job's `logs/`, under the same names.

A copy is written by one process at a time (with a lock for each stream), is append-only, and is rotated where the
remote file was: so it takes no more space than that, and can be read in the same way. Hidden files next to the copies:

    .lock             one byte for each stream, locked by the writer of its copies
    .complete         streams that are complete, one a line
    .<name>.start     for a rotated file: the bytes that its program had printed before, and those that never came
    .<name>.times     the times of its lines (`linux/time_index.py`)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tony.errors import StorageError, TonyError
from tony.history.json_files import read_json, write_json
from tony.linux.files import replace_file
from tony.linux.time_index import TimeIndexWriter, build_index_path, rename_with_index
from tony.model.log_name import LogName
from tony.units import format_bytes, format_first

#: `struct flock` of Linux with 64-bit offsets: type, whence, start, length, pid.
_FLOCK = "hhqqi0q"
#: Logs that are listed in one sentence.
_MAX_LISTED = 3


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What precedes a local file.

    Attributes:
        start: bytes that its program had printed before the file's first one.
        missing: how many of them were never copied.
    """

    start: int = 0
    missing: int = 0


@dataclass(slots=True)
class _Copy:
    """A local file.

    Attributes:
        start: bytes that its program had printed before the file's first one.
        size: bytes.
    """

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Mirror:
    """The local copies of one job's logs. Must be closed.

    Args:
        folder: the job's `logs/`.

    Raises:
        StorageError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[LogName, _Copy] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror}") from error

    def close(self) -> None:
        """Release all locks. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # --- locks ----------------------------------------------------------------------------------------------------

    def take(self, number: int) -> bool:
        """Lock a stream, given by its number in the job; return False if another process holds the lock.

        Raises:
            OSError: the file system does not support locks.
        """
        try:
            self._set_lock(fcntl.F_WRLCK, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def leave(self, number: int) -> None:
        """Unlock a stream."""
        self._set_lock(fcntl.F_UNLCK, number)

    def _set_lock(self, kind: int, number: int) -> None:
        fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0))

    # --- files ----------------------------------------------------------------------------------------------------

    def end(self, name: LogName) -> int:
        """Return how many bytes the program had printed at the end of its copy."""
        return self._copy(name).end

    def forget(self, name: LogName) -> None:
        """Forget the cached size, because another process may have written since."""
        self._copies.pop(name, None)

    def is_rotated(self, name: LogName) -> bool:
        """Return True if the copy was rotated."""
        return name.build_rotated_path(self._folder).exists() or _build_start_path(self._folder, name).exists()

    def read_sizes(self, name: LogName) -> tuple[int, int]:
        """Return the local bytes of the older file and of the newer one."""
        return _read_size(name.build_rotated_path(self._folder)), _read_size(self._folder / name.file)

    def remove(self, name: LogName) -> None:
        """Remove a copy, to start again from nothing."""
        self._copies.pop(name, None)
        files = (self._folder / name.file, name.build_rotated_path(self._folder))
        for path in (*files, *map(build_index_path, files), _build_start_path(self._folder, name)):
            path.unlink(missing_ok=True)

    def write(self, name: LogName, start: int, offset: int, data: bytes, times: Sequence[tuple[int, int]] = ()) -> None:
        """Append a piece; bytes that are already here are skipped.

        Args:
            start, offset: bytes that the program had printed before the remote file, and before `data`.
            times: offsets in `data` and their times, as `read_times` returns them.

        Raises:
            OSError, StorageError: the copy cannot be written.
        """
        copy, first = self._copy(name), offset
        data = data[max(0, copy.end - offset) :]
        if not data:
            return
        offset = max(offset, copy.end)
        # A writer was killed in the middle of a rotation.
        is_interrupted = copy.start > 0 and not (self._folder / name.file).exists()
        if offset > copy.end or (offset == start and copy.start < start) or is_interrupted:
            copy = self._rotate(name, offset)
        path = self._folder / name.file
        self._note_times(path, copy.size, [(place - offset + first, moment) for place, moment in times])
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                written = os.write(descriptor, rest)
                copy.size += written
                rest = rest[written:]
        finally:
            os.close(descriptor)

    def _note_times(self, path: Path, size: int, times: Sequence[tuple[int, int]]) -> None:
        """Note times of what will be appended to a copy of `size` bytes, by offsets from there on."""
        earlier = [(0, moment) for offset, moment in times if offset <= 0]
        writer = TimeIndexWriter(path)
        for offset, moment in (*earlier[-1:], *(each for each in times if each[0] > 0)):
            writer.note(size + offset, moment)
        writer.close()

    def write_index(self, file: str, data: bytes) -> None:
        """Replace the index of times of a file, which may be the older one of a rotated log."""
        replace_file(build_index_path(self._folder / file), data)

    def _copy(self, name: LogName) -> _Copy:
        found = self._copies.get(name)
        if found is None:
            found = self._copies[name] = self._measure_copy(name)
        return found

    def _measure_copy(self, name: LogName) -> _Copy:
        newer, older = _stat(self._folder / name.file), _stat(name.build_rotated_path(self._folder))
        if newer:
            return _Copy(_find_beginning(self._folder, name, newer).start, newer.st_size)
        if older:  # a writer was killed in the middle of a rotation
            return _Copy(_find_beginning(self._folder, name, older).start + older.st_size, 0)
        return _Copy(0, 0)

    def _rotate(self, name: LogName, start: int) -> _Copy:
        """Rotate the copy. If this process is killed in between, the start of each file is still known."""
        path, draft = self._folder / name.file, self._folder / f".{name.file}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        before, older = _stat(path), _stat(name.build_rotated_path(self._folder))
        missing = find_missing_bytes(self._folder, name) + start - self._copy(name).end
        beginnings = {str(inode): [start, missing]}
        for kept in filter(None, (before, older)):
            beginning = _find_beginning(self._folder, name, kept)
            beginnings[str(kept.st_ino)] = [beginning.start, beginning.missing]
        write_json(_build_start_path(self._folder, name), beginnings)
        if before and before.st_size:
            rename_with_index(path, name.build_rotated_path(self._folder))
        os.replace(draft, path)
        made = self._copies[name] = _Copy(start, 0)
        return made


def describe_missing_bytes(
    folder: Path, names: Iterable[LogName], known: Mapping[LogName, int] = MappingProxyType({})
) -> str:
    """Return how much of logs was never copied; empty if nothing is missing.

    Args:
        known: what was missing before, and is not described.
    """
    found = []
    for name in names:
        if (missing := find_missing_bytes(folder, name)) > known.get(name, 0):
            size = format_bytes(_read_size(folder / name.file))
            where = f"before the last {size} of" if missing == _measure_last_gap(folder, name) else "of"
            found.append(f"{format_bytes(missing - known.get(name, 0))} {where} {name.file}")
    return format_first(found, _MAX_LISTED)


def find_missing_bytes(folder: Path, name: LogName) -> int:
    """Return how many bytes of a log were never copied. What was rotated away is not missing."""
    last = _stat(folder / name.file) or _stat(name.build_rotated_path(folder))
    return _find_beginning(folder, name, last).missing


def _measure_last_gap(folder: Path, name: LogName) -> int:
    """Return how many bytes are missing between the older file, or the beginning, and the newer one."""
    newer, older = _stat(folder / name.file), _stat(name.build_rotated_path(folder))
    older_end = _find_beginning(folder, name, older).start + older.st_size if older else 0
    return _find_beginning(folder, name, newer).start - older_end if newer else 0


def _find_beginning(folder: Path, name: LogName, status: os.stat_result | None) -> _Beginning:
    """Return what precedes a file of a log; nothing, if that is not known."""
    try:
        start, missing = (read_json(_build_start_path(folder, name)) or {})[str(status.st_ino if status else "")]
        return _Beginning(int(start), int(missing))
    except (TonyError, LookupError, TypeError, ValueError):
        return _Beginning()


def _build_start_path(folder: Path, name: LogName) -> Path:
    return folder / f".{name.file}.start"


def complete(folder: Path) -> frozenset[str]:
    """Return the streams (`worker:0 out`) whose local copies are complete."""
    try:
        return frozenset((folder / ".complete").read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return frozenset()


def note_complete(folder: Path, streams: Iterable[str]) -> None:
    """Record that the local copies of these streams are complete."""
    text = "".join(f"{stream}\n" for stream in streams)
    if text:
        with contextlib.suppress(OSError), (folder / ".complete").open("a", encoding="utf-8") as file:
            file.write(text)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _read_size(path: Path) -> int:
    found = _stat(path)
    return found.st_size if found else 0
