"""A log file of bounded size on disk, written by one thread and readable from any offset."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tony.linux.time_index import PER_SECOND, TimeIndexWriter, build_index_path, read_times, rename_with_index
from tony.model.log_name import ROTATED

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """Bytes of a log file.

    Attributes:
        start: offset of the first byte of the file on disk that holds them.
        offset: offset of the data. Both count from the first byte ever written.
        times: offsets in the data and when they were written, as `read_times` returns them.
    """

    start: int
    offset: int
    data: bytes
    times: Sequence[tuple[int, int]] = ()


class BoundedLogFile:
    """A file that takes at most `limit` bytes on disk: older output is in `<name>.1`, the newest is always kept.

    Both have an index of times (`time_index`), which is not part of the limit. A full disk or any other write error
    costs output, nothing else.

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
        self._times = TimeIndexWriter(path)

    def read(self, offset: int, most: int) -> FileChunk:
        """Return data from an offset on, or from the oldest byte still on disk. Never raises.

        Call it in the thread that calls `write`, so that no rotation happens meanwhile.

        Args:
            offset: bytes since the first one ever written.
            most: bytes, at most.
        """
        if self._older is not None and offset < self._start:
            offset = max(offset, self._older)
            chunk = _read_chunk(self._rotated, self._older, offset, min(most, self._start - offset))
            if chunk.data:
                return chunk
        offset = max(offset, self._start)
        return _read_chunk(self._path, self._start, offset, min(most, self._start + self._size - offset))

    def read_tail(self, most: int) -> FileChunk:
        """Return the last bytes, from both files on disk if necessary. Otherwise like `read`."""
        end = self._start + self._size
        first = self.read(max(0, end - most), most)
        middle = first.offset + len(first.data)
        if not first.data or middle >= end:
            return first
        second = self.read(middle, end - middle)
        times = [*first.times, *((place + len(first.data), moment) for place, moment in second.times)]
        return replace(first, data=first.data + second.data, times=times)

    @property
    def _rotated(self) -> Path:
        return self._path.with_name(f"{self._path.name}{ROTATED}")

    def create(self) -> None:
        """Create the file, so that a program without output has an empty log."""
        self._append(memoryview(b""))

    def write(self, data: bytes, at: float | None = None) -> None:
        """Append output, rotating the file where needed.

        Args:
            at: when it was read, seconds since 1970; None: its time is not kept.
        """
        if self._half < 1:
            return
        start = max(0, len(data) - self._limit)  # what is before would be rotated away at once
        while len(data) - start > (spare_bytes := self._half - self._size):
            # Up to the last line end that fits, if there is one, so that the next file begins with a whole line.
            end = data.rfind(b"\n", start, start + spare_bytes) + 1
            end = end if end > start else start + spare_bytes
            self._append(memoryview(data)[start:end], at)
            start = end
            trouble = self._rotate()
            if trouble:  # the limit still holds: output is lost until a rotation succeeds
                self._lose(len(data) - start, trouble)
                return
        self._append(memoryview(data)[start:], at)

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._times.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, piece: memoryview, at: float | None = None) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            if at is not None and piece:
                self._times.note(self._size, int(at * PER_SECOND))
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
            rename_with_index(self._path, self._rotated)
        except OSError as error:
            return error
        self._times = TimeIndexWriter(self._path)
        self._older, self._start = self._start, self._start + self._size
        self._size = 0
        return None

    def _lose(self, size: int, error: OSError) -> None:
        reason = error.strerror or str(error)
        if not self.trouble:
            log.error("cannot write log file, output is lost: %s: %s", self._path, reason)
        self.trouble = reason
        self.lost += size


def _read_chunk(path: Path, start: int, offset: int, size: int) -> FileChunk:
    """Return bytes of the file at `path`, whose first one is `start`."""
    data = _call_with_descriptor(path, lambda descriptor: os.pread(descriptor, max(0, size), offset - start)) or b""
    begin, end = offset - start, offset - start + len(data)
    times = _call_with_descriptor(
        build_index_path(path), lambda descriptor: read_times(descriptor, begin, end) if data else []
    )
    relative = [(max(0, place - begin), moment) for place, moment in times or ()]
    return FileChunk(start=start, offset=offset, data=data, times=relative)


def _call_with_descriptor(path: Path, read: Callable[[int], T]) -> T | None:
    """Call `read` with a descriptor of a file; return None if it is removed, or the disk fails."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return read(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return None
