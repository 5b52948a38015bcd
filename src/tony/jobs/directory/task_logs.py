"""A task's logs in a job directory, read and searched in chunks by offset, with secrets masked, whatever their size.

Only plain files are opened, and no symbolic link is followed: the job controls what is in its directory, and the web
server may be able to read more than the job's user.
"""

from __future__ import annotations

import contextlib
import os
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tony.errors import StorageError
from tony.jobs.directory.secret_patterns import MARGIN, PRINTED
from tony.jobs.log_files import LogFileInfo
from tony.linux.thread_pools import USUAL, Lane
from tony.model.ids import TaskId
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import join_path


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


#: Bytes searched per request.
_MAX_SEARCH_BYTES = 64 << 20
#: Overlap of the chunks of a search. A longer text that crosses a chunk boundary is not found.
_OVERLAP = 4096
_COLOUR_SEQUENCE = re.compile(rb"\x1b\[[0-9;:]{0,32}m")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearchResult:
    """The result of a search in a log.

    Attributes:
        line: offset of the line that contains the text; None if it was not found.
        until: offset up to which the log was searched: continue there, whether or not the text was found.
        over: the search has reached the end of the log.
    """

    line: int | None
    until: int
    over: bool


class SearchText:
    """A search text, matched without regard to ASCII case and to colour sequences in the log."""

    def __init__(self, text: str) -> None:
        self._plain = text.encode("utf-8", "surrogateescape").lower()

    def find_first(self, block: bytes) -> int:
        """Return the offset of the first match in a block; -1 if there is none."""
        plain = _PlainBlock(block)
        found = plain.data.find(self._plain)
        return found if found < 0 else plain.to_block_offset(found)

    def find_last(self, block: bytes, before: int) -> int:
        """Return the offset of the last match that starts before `before`; -1 if there is none."""
        plain = _PlainBlock(block)
        found = plain.data.rfind(self._plain, 0, plain.to_plain_offset(before) + len(self._plain) - 1)
        return found if found < 0 else plain.to_block_offset(found)


class _PlainBlock:
    """A block in lower case without colour sequences, with a mapping of its offsets to those of the block."""

    def __init__(self, block: bytes) -> None:
        cuts = [found.span() for found in _COLOUR_SEQUENCE.finditer(block)] if b"\x1b" in block else []
        self._ends = [0, *(end for _, end in cuts)]
        starts = [*(start for start, _ in cuts), len(block)]
        kept = [block[end:start] for end, start in zip(self._ends, starts, strict=True)]
        self._begins = [0, *accumulate(map(len, kept))][:-1]
        self.data = b"".join(kept).lower()

    def to_block_offset(self, at: int) -> int:
        """Return the offset in the block of a byte of `data`."""
        part = bisect_right(self._begins, at) - 1
        return self._ends[part] + at - self._begins[part]

    def to_plain_offset(self, place: int) -> int:
        """Return how many bytes of `data` precede an offset of the block."""
        part = bisect_right(self._ends, place) - 1
        following = self._begins[part + 1] if part + 1 < len(self._begins) else len(self.data)
        return min(self._begins[part] + place - self._ends[part], following)


def find_first(log: OpenLog, text: SearchText, offset: int) -> LogSearchResult:
    """Find the first matching line at or after `offset`."""
    end = min(log.size, offset + _MAX_SEARCH_BYTES)
    at = offset
    while at < end:
        block = log.read_masked(at, LOG_PIECE + _OVERLAP)
        where = text.find_first(block)
        if where >= 0:
            line = _find_line_start(log, at + where)
            return LogSearchResult(line=line, until=_find_next_line(log, at + where), over=False)
        at += LOG_PIECE
    return LogSearchResult(line=None, until=end, over=end >= log.size)


def find_last(log: OpenLog, text: SearchText, offset: int) -> LogSearchResult:
    """Find the last matching line that starts before `offset`."""
    least = max(0, offset - _MAX_SEARCH_BYTES)
    at = offset
    while at > least:
        start = max(least, at - LOG_PIECE)
        # A match that starts before `at` and ends after it counts; one that starts after it does not.
        block = log.read_masked(start, at - start + _OVERLAP)
        where = text.find_last(block, at - start)
        if where >= 0:
            line = _find_line_start(log, start + where)
            return LogSearchResult(line=line, until=line, over=False)
        at = start
    return LogSearchResult(line=None, until=least, over=least == 0)


def _find_line_start(log: OpenLog, at: int) -> int:
    start = max(0, at - LOG_PIECE)
    return start + log.read_bytes(start, at - start).rfind(b"\n") + 1


def _find_next_line(log: OpenLog, at: int) -> int:
    """Return the offset of the next line."""
    end = log.read_bytes(at, LOG_PIECE).find(b"\n")
    return at + end + 1 if end >= 0 else min(log.size, at + LOG_PIECE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBytes:
    """A part of a log.

    Attributes:
        offset: position of the first byte of `data` among the bytes available.
        size: bytes available now.
    """

    offset: int
    data: bytes
    size: int


class TaskLogs:
    """The logs of one task in a folder. Offsets count the bytes available, from 0.

    Args:
        store: the store of the folder.
        folder: path in the store.
        lane: threads that read.
        fetch: called before each read; fetches recent output into the folder, or stops waiting after a few seconds.
            Returns what is missing, why, and what to do, or an empty string.
    """

    def __init__(
        self,
        store: LocalStore,
        folder: str,
        task: str,
        *,
        lane: Lane = USUAL,
        fetch: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._lane = lane
        self._store = store
        self._folder = folder
        self._task = TaskId.parse(task)
        self._fetch = fetch

    async def explain_missing(self) -> str:
        """Return which output could not be fetched from other machines, why, and what to do; empty if none."""
        return await self._fetch() if self._fetch else ""

    async def files(self) -> Sequence[LogFileInfo]:
        """Return all logs, by session and task attempt, `out` before `err`."""
        await self.explain_missing()
        return await self._lane.run(self._files)

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """Read up to `most` bytes (never more than `LOG_PIECE`) from `offset` on; fewer at the end.

        Args:
            offset: if negative, relative to the end.

        Raises:
            LookupError: there is no such log.
        """
        await self.explain_missing()
        return await self._lane.run(self._read, name, offset, most)

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        """Search for `text`, ignoring ASCII case, from `offset` on, or before it if `backwards`.

        Searches a limited part of the log per call.

        Raises:
            LookupError: there is no such log.
        """
        await self.explain_missing()
        return await self._lane.run(self._find, name, text, offset, backwards)

    async def read_all(self, name: str) -> AsyncIterator[bytes]:
        """Yield the whole log in chunks, up to its size at the start."""
        size = (await self.read(name, 0, 0)).size
        offset = 0
        while offset < size:
            piece = await self.read(name, offset, min(LOG_PIECE, size - offset))
            if not piece.data:
                return
            yield piece.data
            offset = piece.offset + len(piece.data)

    def _files(self) -> list[LogFileInfo]:
        begin = f"{self._task.role}-{self._task.index}.s"
        sizes: dict[LogName, int] = {}
        try:
            for item in self._store.list_files(self._folder, begin):
                name = LogName.parse(item.name)
                if name is not None and name.task == str(self._task):
                    sizes[name] = sizes.get(name, 0) + item.size
        except StorageError:
            return []
        return [
            LogFileInfo(
                name=name.file,
                task=name.task,
                session=name.session,
                try_=name.try_,
                stream=name.stream,
                size=sizes[name],
            )
            for name in sorted(sizes, key=lambda name: name.order)
        ]

    def _read(self, name: str, offset: int, most: int) -> LogBytes:
        with self._open_parts(name) as log:
            start = max(0, log.size + offset) if offset < 0 else min(offset, log.size)
            return LogBytes(offset=start, data=log.read_masked(start, min(most, LOG_PIECE)), size=log.size)

    def _find(self, name: str, text: str, offset: int, backwards: bool) -> LogSearchResult:
        with self._open_parts(name) as log:
            offset = min(max(0, offset), log.size)
            if not text:
                return LogSearchResult(line=None, until=offset, over=True)
            search = find_last if backwards else find_first
            return search(log, SearchText(text), offset)

    @contextlib.contextmanager
    def _open_parts(self, name: str) -> Iterator[OpenLog]:
        """Open the rotated and the current file of a log; the current one is opened first, as `LogReader` does."""
        known = LogName.parse(name)
        if known is None or known.file != name or known.task != str(self._task):
            raise LookupError(name)
        parts: list[LogPart] = []
        try:
            for file in (name, known.build_rotated_path(Path()).name):
                part = self._open(file)
                if part is not None and part.inode in [other.inode for other in parts]:
                    os.close(part.descriptor)
                elif part is not None:
                    parts.append(part)
            if not parts:
                raise LookupError(name)
            yield OpenLog(parts[::-1])
        finally:
            for part in parts:
                os.close(part.descriptor)

    def _open(self, name: str) -> LogPart | None:
        try:
            return LogPart(self._store.open(join_path(self._folder, name)))
        except (OSError, StorageError):
            return None
