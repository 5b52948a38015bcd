"""A task's logs in a job's folder, read by offsets: a piece at a time, however long they are.

Nothing but plain files is opened, and no link is followed: what lies in a folder is the job's doing, and the server of
the pages may see more than the job's user may.
"""

from __future__ import annotations

import contextlib
import os
import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from tony.errors import StorageError
from tony.jobs.log_names import LogName
from tony.linux.threads import USUAL, Lane
from tony.model.ids import TaskId
from tony.storage.local_store import LocalStore
from tony.storage.store import joined
from tony.web.job_source import LOG_PIECE, LogBytes, LogFileInfo, LogSearchResult
from tony.web.secret_masking import MARGIN, PRINTED

#: Bytes that one search looks through; then it says where to go on.
_SEARCHED = 64 << 20
#: Bytes of a line that a search finds whole: of a longer one what stands across the edge of two pieces is not found.
_OVERLAP = 4096
#: What sets a colour.
_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,32}m")


class FolderLogs:
    """The logs of one task.

    Args:
        store: in which they lie.
        folder: the folder there.
        lane: whose threads read.
    """

    def __init__(self, store: LocalStore, folder: str, task: str, *, lane: Lane = USUAL) -> None:
        self._lane = lane
        self._store = store
        self._folder = folder
        self._task = TaskId.parse(task)

    async def missing(self) -> str:
        """As `Logs`."""
        return ""

    async def files(self) -> Sequence[LogFileInfo]:
        """As `Logs`."""
        return await self._lane.run(self._files)

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """As `Logs`."""
        return await self._lane.run(self._read, name, offset, most)

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        """As `Logs`."""
        return await self._lane.run(self._find, name, text, offset, backwards)

    async def all_of(self, name: str) -> AsyncIterator[bytes]:
        """As `Logs`."""
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
        with self._opened(name) as parts:
            size = sum(part.size for part in parts)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            return LogBytes(offset=start, data=_shown(parts, start, min(most, LOG_PIECE)), size=size)

    def _find(self, name: str, text: str, offset: int, backwards: bool) -> LogSearchResult:
        with self._opened(name) as parts:
            size = sum(part.size for part in parts)
            offset = min(max(0, offset), size)
            look = _last if backwards else _first
            if not text:
                return LogSearchResult(line=None, until=offset, over=True)
            return look(parts, _Sought(text), offset, size)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[list[_Part]]:
        """The two halves of a log, older first; the newer one is opened first, as `Reader` does."""
        known = LogName.parse(name)
        if known is None or known.file != name or known.task != str(self._task):
            raise LookupError(name)
        parts: list[_Part] = []
        try:
            for file in (name, known.rotated(Path()).name):
                part = self._open(file)
                if part is not None and part.inode in [other.inode for other in parts]:
                    os.close(part.descriptor)
                elif part is not None:
                    parts.append(part)
            if not parts:
                raise LookupError(name)
            yield parts[::-1]
        finally:
            for part in parts:
                os.close(part.descriptor)

    def _open(self, name: str) -> _Part | None:
        try:
            return _Part(self._store.open(joined(self._folder, name)))
        except (OSError, StorageError):
            return None


class _Part:
    """An open file of a log."""

    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.inode = status.st_dev, status.st_ino
        self.size = status.st_size


def _bytes(parts: Sequence[_Part], start: int, most: int) -> bytes:
    """So many bytes of the halves as if they were one."""
    found: list[bytes] = []
    for part in parts:
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


def _shown(parts: Sequence[_Part], start: int, most: int) -> bytes:
    """The same without secrets: nobody finds one by searching for its first letters either."""
    before = min(start, MARGIN)
    return PRINTED.hide(_bytes(parts, start - before, before + most + MARGIN))[before : before + most]


class _Sought:
    """A text as a person sees it: A to Z and a to z alike, with or without colours in its midst."""

    def __init__(self, text: str) -> None:
        self._plain = text.encode("utf-8", "surrogateescape").lower()

    def first(self, block: bytes) -> int:
        """Where it begins; -1 if it is not there."""
        letters = _Letters(block)
        found = letters.plain.find(self._plain)
        return found if found < 0 else letters.place(found)

    def last(self, block: bytes, before: int) -> int:
        """Where the last one begins that begins before a place."""
        letters = _Letters(block)
        found = letters.plain.rfind(self._plain, 0, letters.until(before) + len(self._plain) - 1)
        return found if found < 0 else letters.place(found)


class _Letters:
    """A block without its colours, and where its bytes were: what is searched is read once, whatever it is."""

    def __init__(self, block: bytes) -> None:
        cuts = [found.span() for found in _COLOUR.finditer(block)] if b"\x1b" in block else []
        self._ends = [0, *(end for _, end in cuts)]
        starts = [*(start for start, _ in cuts), len(block)]
        kept = [block[end:start] for end, start in zip(self._ends, starts, strict=True)]
        self._begins = [0, *accumulate(map(len, kept))][:-1]
        self.plain = b"".join(kept).lower()

    def place(self, at: int) -> int:
        """Where in the block one of the bytes was."""
        part = bisect_right(self._begins, at) - 1
        return self._ends[part] + at - self._begins[part]

    def until(self, place: int) -> int:
        """How many of the bytes were before a place of the block."""
        part = bisect_right(self._ends, place) - 1
        following = self._begins[part + 1] if part + 1 < len(self._begins) else len(self.plain)
        return min(self._begins[part] + place - self._ends[part], following)


def _first(parts: Sequence[_Part], text: _Sought, offset: int, size: int) -> LogSearchResult:
    """The first line at `offset` or later."""
    end = min(size, offset + _SEARCHED)
    at = offset
    while at < end:
        block = _shown(parts, at, LOG_PIECE + _OVERLAP)
        where = text.first(block)
        if where >= 0:
            line = _line_start(parts, at + where)
            return LogSearchResult(line=line, until=_line_end(parts, at + where, size), over=False)
        at += LOG_PIECE
    return LogSearchResult(line=None, until=end, over=end >= size)


def _last(parts: Sequence[_Part], text: _Sought, offset: int, size: int) -> LogSearchResult:
    """The last line that begins before `offset`."""
    least = max(0, offset - _SEARCHED)
    at = offset
    while at > least:
        start = max(least, at - LOG_PIECE)
        # What begins before `at` and goes on behind it counts; what begins behind it does not.
        block = _shown(parts, start, at - start + _OVERLAP)
        where = text.last(block, at - start)
        if where >= 0:
            line = _line_start(parts, start + where)
            return LogSearchResult(line=line, until=line, over=False)
        at = start
    return LogSearchResult(line=None, until=least, over=least == 0)


def _line_start(parts: Sequence[_Part], at: int) -> int:
    start = max(0, at - LOG_PIECE)
    return start + _bytes(parts, start, at - start).rfind(b"\n") + 1


def _line_end(parts: Sequence[_Part], at: int, size: int) -> int:
    """Where the next line begins."""
    end = _bytes(parts, at, LOG_PIECE).find(b"\n")
    return at + end + 1 if end >= 0 else min(size, at + LOG_PIECE)
