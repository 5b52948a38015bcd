"""The compressions of aggregated logs: none, and gz.

What Hadoop calls gz there is a zlib stream (RFC 1950); a gzip header (RFC 1952) is accepted as well. The others (lzo,
zstd, snappy) need code that the standard library lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

from tony.hadoop.logs.errors import MalformedLogFileError
from tony.hadoop.logs.range_reader import RangeReader

#: Compressed bytes fed at once; zlib expands them at most some 1,000 times, and the output is read in pieces.
_PIECE = 32 * 2**10
#: 32: zlib or gzip by the header.
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


class Decoded(Protocol):
    """Plain bytes, one after another."""

    def read_chunk(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        ...

    def skip(self, size: int) -> None:
        """Skip bytes; raise an error if fewer are left."""
        ...

    def close(self) -> None:
        """End what is under way."""
        ...


def decode(raw: RangeReader, compression: str) -> Decoded:
    """Return the plain bytes of a stretch.

    Raises:
        MalformedLogFileError: a compression that we do not know.
    """
    if compression == "none":
        return raw
    if compression == "gz":
        return Inflated(raw)
    raise MalformedLogFileError(
        f"is compressed as {compression!r:.40}; only none and gz can be read here."
        " The job history server's pages show it, or `yarn logs`."
    )


class Inflated:
    """Plain bytes of a zlib stream, in bounded memory."""

    def __init__(self, raw: RangeReader) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj(_ZLIB_OR_GZIP)

    def read_chunk(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end.

        Raises:
            MalformedLogFileError: no zlib stream, or one that is cut off.
        """
        while size > 0 and not self._inflate.eof:
            fed = self._inflate.unconsumed_tail or self._raw.read_chunk(_PIECE)
            try:
                plain = self._inflate.decompress(fed, size)
            except zlib.error as error:
                raise MalformedLogFileError(
                    f"holds damaged compressed bytes before byte {self._raw.position}"
                ) from error
            if plain:
                return plain
            if not fed:
                raise MalformedLogFileError(f"holds compressed bytes that end too early, at byte {self._raw.position}")
        return b""

    def skip(self, size: int) -> None:
        """Skip decompressed bytes.

        Raises:
            MalformedLogFileError: fewer bytes are left.
        """
        while size:
            part = self.read_chunk(min(size, _PIECE))
            if not part:
                raise MalformedLogFileError(f"ends {size} bytes too early")
            size -= len(part)

    def close(self) -> None:
        """End the request that is under way."""
        self._raw.close()


def read_pieces(source: Decoded, name: str, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of the log file `name`, in pieces.

    Raises:
        MalformedLogFileError: fewer bytes are left.
    """
    while size:
        part = source.read_chunk(size)
        if not part:
            raise MalformedLogFileError(f"has a log file {name!r:.80} that ends {size} bytes too early")
        size -= len(part)
        yield part


def read_exactly(source: Decoded, size: int) -> bytes:
    """Return the next `size` bytes, which should be few.

    Raises:
        MalformedLogFileError: fewer bytes are left.
    """
    parts = []
    while size:
        part = source.read_chunk(size)
        if not part:
            raise MalformedLogFileError(f"ends {size} bytes too early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
