"""Read a remote file with few requests: small pieces anywhere, and long ones in sequence.

Every request to a remote file system costs some ten milliseconds, so nearby reads are served from one buffer, and small
gaps are read and skipped instead of starting a new request.
"""

from __future__ import annotations

from collections.abc import Callable

from tony.hadoop.hdfs.file_system import FileSystem, SeekableReader
from tony.hadoop.logs.errors import MalformedLogFileError

#: Bytes from here to there that are cheaper read than skipped by another request, about 30 ms at 100 MB/s.
WORTH_A_REQUEST = 4 * 2**20
_PIECE = 64 * 2**10

#: Opens a file at an offset: (offset, length) -> its bytes.
Opener = Callable[[int, int], SeekableReader]


def create_opener(filesystem: FileSystem, path: str) -> Opener:
    """Return a function that opens one file of a file system at an offset."""

    def open_at(offset: int, length: int) -> SeekableReader:
        return filesystem.open(path, offset, length)

    return open_at


class RangeReader:
    """Reads one stretch of a file forwards, and skips.

    Args:
        start: where the stretch begins, bytes from the start of the file.
        end: where it ends.
    """

    def __init__(self, open_at: Opener, start: int, end: int) -> None:
        self._open_at = open_at
        self._at = start
        self._end = end
        self._stream: SeekableReader | None = None
        self._buffer = b""
        self._used = 0

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._at

    @property
    def remaining(self) -> int:
        """Bytes to the end of the stretch."""
        return self._end - self._at

    def read_chunk(self, size: int) -> bytes:
        """Return at least one and at most `size` bytes; empty at the end of the stretch.

        Raises:
            MalformedLogFileError: the file ends before the stretch does.
        """
        size = min(size, self.remaining)
        if size <= 0:
            return b""
        if self._used == len(self._buffer):
            self._fill(size)
        part = self._buffer[self._used : self._used + size]
        self._used += len(part)
        self._at += len(part)
        return part

    def skip(self, size: int) -> None:
        """Skip bytes.

        Raises:
            MalformedLogFileError: the stretch ends before.
        """
        if size > self.remaining:
            raise MalformedLogFileError(f"ends at byte {self._end}, {size - self.remaining} bytes too early")
        buffered = min(size, len(self._buffer) - self._used)
        self._used += buffered
        self._at += buffered
        size -= buffered
        if size > WORTH_A_REQUEST:
            self.close()
            self._at += size
            return
        while size:
            size -= len(self.read_chunk(size))

    def close(self) -> None:
        """End the request that is under way, if any; reading on begins a new one."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._buffer, self._used = None, b"", 0

    def _fill(self, size: int) -> None:
        if self._stream is None:
            self._stream = self._open_at(self._at, self.remaining)
        self._buffer, self._used = self._stream.read(min(max(size, _PIECE), self.remaining)), 0
        if not self._buffer:
            raise MalformedLogFileError(f"ends at byte {self._at}, expected up to byte {self._end}")


def read_range(open_at: Opener, start: int, end: int) -> bytes:
    """Return all bytes of a stretch, which should be few.

    Raises:
        MalformedLogFileError: the file ends before.
    """
    reader = RangeReader(open_at, start, end)
    parts = []
    try:
        while reader.remaining:
            parts.append(reader.read_chunk(reader.remaining))
    finally:
        reader.close()
    return b"".join(parts)
