"""A log file of bounded size on disk, written by one thread and readable from any offset."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """Bytes of a log file.

    Attributes:
        start: offset of the first byte of the file on disk that holds them.
        offset: offset of the data. Both count from the first byte ever written.
    """

    start: int
    offset: int
    data: bytes


class BoundedLogFile:
    """A file that takes at most `limit` bytes on disk: older output is in `<name>.1`, the newest is always kept.

    A full disk or any other write error costs output, nothing else.

    Attributes:
        lost: bytes that could not be written.
        trouble: why; empty if nothing was lost.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.lost = 0
        self.trouble = ""
        self._path = path
        self._limit = limit
        self._half = limit // 2
        self._descriptor = -1
        self._size = 0
        self._start = 0
        self._older: int | None = None

    def read(self, offset: int, most: int) -> FileChunk:
        """Return data from an offset on, or from the oldest byte still on disk. Never raises.

        Call it in the thread that calls `write`, so that no rotation happens meanwhile.

        Args:
            offset: bytes since the first one ever written.
            most: bytes, at most.
        """
        if self._older is not None and offset < self._start:
            offset = max(offset, self._older)
            data = _read(f"{self._path}.1", offset - self._older, min(most, self._start - offset))
            if data:
                return FileChunk(start=self._older, offset=offset, data=data)
        offset = max(offset, self._start)
        data = _read(str(self._path), offset - self._start, min(most, self._start + self._size - offset))
        return FileChunk(start=self._start, offset=offset, data=data)

    def create(self) -> None:
        """Create the file, so that a program without output has an empty log."""
        self._append(memoryview(b""))

    def write(self, data: bytes) -> None:
        """Append output, rotating the file where needed."""
        if self._half < 1:
            return
        start = max(0, len(data) - self._limit)  # what is before would be rotated away at once
        while len(data) - start > (spare_bytes := self._half - self._size):
            # Up to the last line end that fits, if there is one, so that the next file begins with a whole line.
            end = data.rfind(b"\n", start, start + spare_bytes) + 1
            end = end if end > start else start + spare_bytes
            self._append(memoryview(data)[start:end])
            start = end
            trouble = self._rotate()
            if trouble:  # the limit still holds: output is lost until a rotation succeeds
                self._lose(len(data) - start, trouble)
                return
        self._append(memoryview(data)[start:])

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, piece: memoryview) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            while piece:
                written = os.write(self._descriptor, piece)
                self._size += written
                piece = piece[written:]
        except OSError as error:
            self._lose(len(piece), error)

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> OSError | None:
        """Start a new file; return the error that prevents it."""
        self.close()
        try:
            os.replace(self._path, f"{self._path}.1")
        except OSError as error:
            return error
        self._older, self._start = self._start, self._start + self._size
        self._size = 0
        return None

    def _lose(self, size: int, error: OSError) -> None:
        reason = error.strerror or str(error)
        if not self.trouble:
            log.error("cannot write log file, output is lost: %s: %s", self._path, reason)
        self.trouble = reason
        self.lost += size


def _read(path: str, offset: int, size: int) -> bytes:
    if size <= 0:
        return b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)
    except OSError:  # removed, or the disk fails: nothing can be read
        return b""
