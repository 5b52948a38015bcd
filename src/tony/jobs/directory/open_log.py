"""An open log: its rotated and its current file, read as one, with secrets masked."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tony.jobs.directory.secret_patterns import MARGIN, PRINTED


class LogPart:
    """An open file of a log: the current or the rotated one."""

    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.inode = status.st_dev, status.st_ino
        self.size = status.st_size


class OpenLog:
    """The files of a log as if they were one.

    Args:
        parts: the older one first.

    Attributes:
        size: bytes when they were opened.
    """

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self._parts = parts
        self.size = sum(part.size for part in parts)

    def read_bytes(self, start: int, most: int) -> bytes:
        """Return up to `most` bytes from `start` on, unmasked."""
        found: list[bytes] = []
        for part in self._parts:
            if most <= 0:
                break
            if start < part.size:
                data = os.pread(part.descriptor, min(most, part.size - start), start)
                found.append(data)
                most -= len(data)
                start = 0
            else:
                start -= part.size
        return b"".join(found)

    def read_masked(self, start: int, most: int) -> bytes:
        """Return up to `most` bytes from `start` on, with secrets masked.

        Searches use this too, so that they cannot guess a secret letter by letter.
        """
        before = min(start, MARGIN)
        return PRINTED.hide(self.read_bytes(start - before, before + most + MARGIN))[before : before + most]


#: Maximum bytes of a log per read.
LOG_PIECE = 1 << 20
