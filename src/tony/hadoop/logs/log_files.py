"""Log files inside aggregated files, as the readers of both formats give them, and the bytes behind them.

Every request to a remote file system costs some ten milliseconds, so nearby reads are served from one buffer, and small
gaps are read and skipped instead of starting a new request.

What Hadoop calls gz here is a zlib stream (RFC 1950); a gzip header (RFC 1952) is accepted as well. Other compressions
(lzo, zstd, snappy) need code that the standard library lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tony.hadoop.errors import HadoopError
from tony.hadoop.hdfs.file_system import SeekableReader

#: Bytes from here to there that are cheaper read than skipped by another request, about 30 ms at 100 MB/s.
_WORTH_A_REQUEST = 4 * 2**20
#: Bytes requested at least from a file; zlib expands what it is fed at most some 1,000 times.
_PIECE = 64 * 2**10
#: 32: zlib or gzip by the header.
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS

#: Opens a file at an offset: (offset, length) -> its bytes.
Opener = Callable[[int, int], SeekableReader]


class MalformedLogFileError(HadoopError):
    """An aggregated file that is damaged, being written, or of another format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileEntry:
    """One log file of a container inside an aggregated file.

    Attributes:
        length: bytes.
        read: yields `length` bytes from an offset on: `(offset, length)`, whose sum is at most the entry's length.
    """

    container: str
    name: str
    length: int
    read: Callable[[int, int], Iterator[bytes]]


class PlainBytes(Protocol):
    """The bytes of a stretch of a file without compression, one after another."""

    def read_chunk(self, size: int) -> bytes:
        """Return at least one and at most `size` bytes; empty at the end."""
        ...

    def skip(self, size: int) -> None:
        """Skip bytes.

        Raises:
            MalformedLogFileError: fewer are left.
        """
        ...

    def has_ended(self) -> bool:
        """Return True at the end."""
        ...

    def close(self) -> None:
        """End the request that is under way."""
        ...


def open_stretch(open_at: Opener, start: int, end: int, compression: str) -> PlainBytes:
    """Return the plain bytes of a stretch.

    Args:
        start: where the stretch begins, bytes from the start of the file.
        end: where it ends.
        compression: `none` or `gz`.

    Raises:
        MalformedLogFileError: a compression that we do not know.
    """
    raw = RangeReader(open_at, start, end)
    if compression == "none":
        return raw
    if compression == "gz":
        return _Inflated(raw)
    raise MalformedLogFileError(
        f"is compressed as {compression!r:.40}; only none and gz can be read here."
        " The job history server's pages show it, or `yarn logs`."
    )


class RangeReader:
    """The bytes of one stretch of a file as they are stored."""

    def __init__(self, open_at: Opener, start: int, end: int) -> None:
        self._open_at = open_at
        self._end = end
        self._stream: SeekableReader | None = None
        self._buffer = b""
        self._used = 0
        #: Offset in the file of the next byte.
        self.position = start

    def read_chunk(self, size: int) -> bytes:
        """Return at least one and at most `size` bytes; empty at the end of the stretch.

        Raises:
            MalformedLogFileError: the file ends before the stretch does.
        """
        size = min(size, self._end - self.position)
        if size <= 0:
            return b""
        if self._used == len(self._buffer):
            self._fill(size)
        part = self._buffer[self._used : self._used + size]
        self._used += len(part)
        self.position += len(part)
        return part

    def skip(self, size: int) -> None:
        """Skip bytes."""
        missing = self.position + size - self._end
        if missing > 0:
            raise MalformedLogFileError(f"ends at byte {self._end}, {missing} bytes too early")
        if size - (len(self._buffer) - self._used) > _WORTH_A_REQUEST:
            self.close()
            self.position += size
            return
        while size:
            size -= len(self.read_chunk(size))

    def has_ended(self) -> bool:
        """Return True at the end of the stretch."""
        return self.position >= self._end

    def close(self) -> None:
        """End the request that is under way, if any; reading on begins a new one."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._buffer, self._used = None, b"", 0

    def _fill(self, size: int) -> None:
        left = self._end - self.position
        if self._stream is None:
            self._stream = self._open_at(self.position, left)
        self._buffer, self._used = self._stream.read(min(max(size, _PIECE), left)), 0
        if not self._buffer:
            raise MalformedLogFileError(f"ends at byte {self.position}, expected up to byte {self._end}")


class _Inflated:
    """The bytes of a zlib stream, in bounded memory."""

    def __init__(self, raw: RangeReader) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj(_ZLIB_OR_GZIP)
        self._ahead = b""

    def read_chunk(self, size: int) -> bytes:
        part, self._ahead = self._ahead[:size], self._ahead[size:]
        while not part and size > 0 and not self._inflate.eof:
            fed = self._inflate.unconsumed_tail or self._raw.read_chunk(_PIECE)
            try:
                part = self._inflate.decompress(fed, size)
            except zlib.error as error:
                text = f"holds damaged compressed bytes before byte {self._raw.position}"
                raise MalformedLogFileError(text) from error
            if not part and not fed:
                raise MalformedLogFileError(f"holds compressed bytes that end too early, at byte {self._raw.position}")
        return part

    def skip(self, size: int) -> None:
        while size:
            part = self.read_chunk(min(size, _PIECE))
            if not part:
                raise MalformedLogFileError(f"ends {size} bytes too early")
            size -= len(part)

    def has_ended(self) -> bool:
        if not self._ahead:
            self._ahead = self.read_chunk(_PIECE)
        return not self._ahead

    def close(self) -> None:
        self._raw.close()


def read_pieces(source: PlainBytes, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes, in pieces.

    Raises:
        MalformedLogFileError: fewer bytes are left.
    """
    while size:
        part = source.read_chunk(size)
        if not part:
            raise MalformedLogFileError(f"ends {size} bytes too early")
        size -= len(part)
        yield part


def read_exactly(source: PlainBytes, size: int) -> bytes:
    """Return the next `size` bytes, which should be few.

    Raises:
        MalformedLogFileError: fewer bytes are left.
    """
    return b"".join(read_pieces(source, size))


def read_range(open_at: Opener, start: int, end: int) -> bytes:
    """Return all bytes of a stretch as they are stored, which should be few.

    Raises:
        MalformedLogFileError: the file ends before.
    """
    reader = RangeReader(open_at, start, end)
    try:
        return read_exactly(reader, end - start)
    finally:
        reader.close()
