"""A task's logs in a job directory, read and searched in chunks by offset, with secrets masked, whatever their size.

Only plain files are opened, and no symbolic link is followed: the job controls what is in its directory, and the web
server may be able to read more than the job's user.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError
from tony.jobs.directory.log_search import LogSearchResult, SearchText, find_first, find_last
from tony.jobs.directory.open_log import LOG_PIECE, LogPart, OpenLog
from tony.jobs.logs.log_selection import LogFileInfo
from tony.linux.thread_pools import USUAL, Lane
from tony.model.ids import TaskId
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import join_path


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
        """Open the rotated and the current file of a log; the current one is opened first, as `Reader` does."""
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
