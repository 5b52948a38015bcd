"""An open log of a job directory: its rotated and its current file as one, with secrets masked, and its times.

Only plain files are opened, and no symbolic link is followed: the job controls what is in its directory, and the web
server may be able to read more than the job's user.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from tony.errors import StorageError
from tony.jobs.directory.secret_patterns import MARGIN, PRINTED
from tony.jobs.log_parts import LogPart, open_parts
from tony.linux.time_index import find_offset, read_times
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import join_path

#: Maximum bytes of a log per read.
LOG_PIECE = 1 << 20


class OpenLog:
    """The files of a log as if they were one. Offsets count the bytes available, from 0.

    Args:
        parts: the older one first.

    Attributes:
        size: bytes when they were opened.
    """

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self._parts = parts
        self.size = sum(part.size for part in parts)

    @property
    def has_times(self) -> bool:
        """True if the times of at least a part are known."""
        return any(part.times is not None for part in self._parts)

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

    def read_times(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return offsets and times of known bytes, as `time_index.read_times` does."""
        found: list[tuple[int, int]] = []
        for base, part in self._list_bases():
            if part.times is not None and base < end and start < base + part.size:
                times = read_times(part.times, max(0, start - base), min(part.size, end - base))
                found += [(base + offset, moment) for offset, moment in times]
        return found

    def find_time(self, moment: int) -> int:
        """Return the offset of the first line that was printed at or after a time; the end if there is none.

        Lines without a known time count as older than any other.
        """
        for base, part in self._list_bases():
            found = None if part.times is None else find_offset(part.times, moment)
            if found is not None and found < part.size:
                return self._find_next_line(base + found)
        return self.size

    def _list_bases(self) -> Iterator[tuple[int, LogPart]]:
        base = 0
        for part in self._parts:
            yield base, part
            base += part.size

    def _find_next_line(self, at: int) -> int:
        """Return the offset of the first line that begins at or after a byte; the byte itself in a very long line."""
        if at == 0:
            return 0
        end = self.read_bytes(at - 1, LOG_PIECE).find(b"\n")
        return at + end if end >= 0 else at


@contextlib.contextmanager
def open_log(store: LocalStore, folder: str, name: LogName) -> Iterator[OpenLog]:
    """Open a log in a folder of a store.

    Raises:
        LookupError: there is no such log.
    """

    def open_file(file: str) -> int | None:
        try:
            return store.open(join_path(folder, file))
        except (OSError, StorageError):
            return None

    with ExitStack() as stack:
        parts = open_parts(stack, open_file, name)
        if not parts:
            raise LookupError(name.file)
        yield OpenLog(parts)
