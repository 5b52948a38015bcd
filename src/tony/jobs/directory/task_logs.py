"""A task's logs in a job directory, read in chunks by offset, with secrets masked, whatever their size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tony.errors import StorageError
from tony.jobs.directory.open_log import LOG_PIECE, OpenLog, open_log
from tony.jobs.log_files import LogFileInfo
from tony.linux.thread_pools import USUAL, Lane
from tony.model.ids import TaskId
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore


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

    async def read_times(self, name: str, offset: int, most: int) -> Sequence[tuple[int, int]]:
        """Return offsets and times of known bytes of a part of a log, as `time_index.read_times` does.

        Raises:
            LookupError: there is no such log.
        """
        return await self._lane.run(self._read_times, name, offset, min(most, LOG_PIECE))

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
        with self._open_log(name) as log:
            start = max(0, log.size + offset) if offset < 0 else min(offset, log.size)
            return LogBytes(offset=start, data=log.read_masked(start, min(most, LOG_PIECE)), size=log.size)

    def _read_times(self, name: str, offset: int, most: int) -> list[tuple[int, int]]:
        with self._open_log(name) as log:
            return log.read_times(offset, offset + most)

    def _open_log(self, name: str) -> AbstractContextManager[OpenLog]:
        known = LogName.parse(name)
        if known is None or known.file != name or known.task != str(self._task):
            raise LookupError(name)
        return open_log(self._store, self._folder, known)
