"""A stream of an HDFS file that survives the failure of a DataNode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from tony.hadoop.errors import CallTimeoutError, ConnectionLostError, HadoopError, RemoteError
from tony.hadoop.hdfs.http import HttpResponse

#: Opens at (offset, length or None, hosts of DataNodes to leave out): the answer, and the host that it comes from.
#: Hosts that refused are added to the list.
Opener = Callable[[int, int | None, list[str]], tuple[HttpResponse, str]]

#: Broken connections in a row, without a byte between them.
_MAX_FAILURES = 4
#: What HDFS says of an offset at or behind the end; it has no class of its own for that.
_BEHIND_THE_END = "out of the range"


class Download:
    """Bytes of a file, from an offset on; opened at once, so that a missing file is known before the first read.

    Attributes:
        position: offset in the file of the next byte.
    """

    def __init__(self, open_at: Opener, offset: int, length: int | None) -> None:
        self._open_at = open_at
        self._left = length
        self._excluded: list[str] = []
        self._host = ""
        self._trouble = 0
        self._ended = False
        self.position = offset
        self._answer = self._open() if length != 0 else None

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, at least one until the end; all that is left for a negative `size`.

        Raises:
            ConnectionLostError, CallTimeoutError: broken again and again.
            FileMissingError: it was removed meanwhile.
        """
        if size < 0:
            parts = []
            while part := self.read(2**20):
                parts.append(part)
            return b"".join(parts)
        while size and not self._ended and self._left != 0:
            if self._answer is None:
                self._answer = self._open()
                continue
            try:
                data = self._answer.read(size if self._left is None else min(size, self._left))
            except (ConnectionLostError, CallTimeoutError) as error:
                self._answer = None
                self._on_failure(error)
                continue
            if not data:
                self._ended = True
                break
            self._trouble = 0
            self.position += len(data)
            if self._left is not None:
                self._left -= len(data)
            return data
        self.close()
        return b""

    def close(self) -> None:
        """Close the request; idempotent."""
        self._ended = True
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> HttpResponse | None:
        """Request the remaining bytes; return None at the end of the file."""
        while True:
            try:
                answer, self._host = self._open_at(self.position, self._left, self._excluded)
            except (ConnectionLostError, CallTimeoutError) as error:
                self._on_failure(error)
            except RemoteError as error:
                if _BEHIND_THE_END not in error.remote_message:
                    raise
                self._ended = True
                return None
            else:
                return answer

    def _on_failure(self, error: HadoopError) -> None:
        """Continue with another DataNode, or raise after too many failures."""
        self._trouble += 1
        if self._trouble >= _MAX_FAILURES:
            raise error
        if self._host and self._host not in self._excluded:
            self._excluded.append(self._host)
