"""The content of an upload in pieces: bytes, a local file, or a stream."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tony.errors import StorageError

#: What `create` and `append` take. A stream is read from where it stands, to its end, and can be sent once only.
Content = bytes | bytearray | memoryview | Path | BinaryIO

_PIECE = 128 * 2**10


class Pieces:
    """Content to send; repeatable unless it is a stream that cannot seek.

    Attributes:
        length: bytes; None if unknown before the end.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._start = 0
        self._sent = False
        self.length: int | None = None
        if isinstance(content, bytes | bytearray | memoryview):
            self.length = len(content) if not isinstance(content, memoryview) else content.nbytes
        elif isinstance(content, Path):
            self.length = content.stat().st_size
        elif content.seekable():
            self._start = content.tell()
            self.length = content.seek(0, os.SEEK_END) - self._start
            content.seek(self._start)

    @property
    def repeatable(self) -> bool:
        """Return True if `read` may be called (again)."""
        return not self._sent or self.length is not None

    def read(self) -> Iterator[bytes]:
        """Yield the pieces, from the start.

        Raises:
            StorageError: a file became shorter meanwhile.
        """
        self._sent = True
        content = self._content
        if isinstance(content, bytes | bytearray | memoryview):
            yield from _cut(io.BytesIO(content), self.length)
        elif isinstance(content, Path):
            with content.open("rb") as file:
                yield from _cut(file, self.length)
        else:
            if self.length is not None:
                content.seek(self._start)
            yield from _cut(content, self.length)


def _cut(stream: BinaryIO, length: int | None) -> Iterator[bytes]:
    """Yield exactly `length` bytes, ignoring what a file has grown meanwhile."""
    left = length
    while left is None or left > 0:
        piece = stream.read(_PIECE if left is None else min(_PIECE, left))
        if not piece:
            break
        if left is not None:
            left -= len(piece)
        yield piece
    if left:
        name = getattr(stream, "name", "what was to be sent")
        raise StorageError(f"{name} became {left} bytes shorter while it was being sent to HDFS.")
