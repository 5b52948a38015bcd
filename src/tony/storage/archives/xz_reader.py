"""Reads xz with a memory limit: the standard library's reader allocates all that an archive requests, up to 4 GiB."""

from __future__ import annotations

import lzma
from typing import IO

#: Bytes for decompression: 65 MiB with the strongest of the usual settings, `xz -9`.
MEMORY = 256 << 20
_PIECE = 64 * 1024


class XzFile:
    """The decompressed content of an xz file, from its beginning. The file is not closed here.

    Raises:
        lzma.LZMAError: it is damaged, or requests more than `MEMORY`.
        EOFError: it is truncated.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._rewind()

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._position

    def seek(self, offset: int, /) -> int:
        """Go to an offset, decompressing everything before it."""
        if offset < self._position:
            self._rewind()
        while offset > self._position and self._read_next(min(offset - self._position, _PIECE)):
            pass
        return self._position

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes; fewer at the end only."""
        pieces = []
        while size > 0 and (piece := self._read_next(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _rewind(self) -> None:
        self._file.seek(0)
        self._position = 0
        self._input = b""
        self._engine: lzma.LZMADecompressor | None = None

    def _read_next(self, most: int) -> bytes:
        """Return the next bytes, at least one; none at the end."""
        while True:
            if self._engine is None:
                if not self._begin_stream():
                    return b""
                self._engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
            elif self._engine.needs_input and not self._input:
                self._input = self._file.read(_PIECE)
                if not self._input:
                    raise EOFError("the compressed data end too early")
            given, self._input = self._input, b""
            piece = self._engine.decompress(given, most)
            if self._engine.eof:
                self._input, self._engine = self._engine.unused_data, None
            if piece:
                self._position += len(piece)
                return piece

    def _begin_stream(self) -> bool:
        """Go to the next stream: there may be several, with zeros between them."""
        while not (rest := self._input.lstrip(b"\0")):
            self._input = self._file.read(_PIECE)
            if not self._input:
                return False
        self._input = rest
        return True
