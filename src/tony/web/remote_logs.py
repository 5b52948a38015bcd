"""A task's logs on other machines, fetched into the job directory on demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tony.linux.thread_pools import USUAL, Lane
from tony.storage.stores.local_store import LocalStore
from tony.web.job_source import LogBytes, LogFileInfo, LogSearchResult
from tony.web.log_files import FolderLogs


class RemoteLogs(FolderLogs):
    """`Logs` that are fetched before each read.

    Args:
        fetch: fetches recent output into the folder, or stops waiting after a few seconds; returns what is missing
            and why, or an empty string.
    """

    def __init__(
        self,
        store: LocalStore,
        folder: str,
        task: str,
        fetch: Callable[[], Awaitable[str]],
        *,
        lane: Lane = USUAL,
    ) -> None:
        super().__init__(store, folder, task, lane=lane)
        self._fetch = fetch

    async def missing(self) -> str:
        return await self._fetch()

    async def files(self) -> Sequence[LogFileInfo]:
        await self._fetch()
        return await super().files()

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        await self._fetch()
        return await super().read(name, offset, most)

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        await self._fetch()
        return await super().find(name, text, offset, backwards=backwards)
