"""A task's logs that lie on other machines, brought into the job's folder when somebody looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tony.linux.threads import USUAL, Lane
from tony.storage.local_store import LocalStore
from tony.web.job_source import LogBytes, LogFileInfo, LogSearchResult
from tony.web.log_files import FolderLogs


class RemoteLogs(FolderLogs):
    """As `Logs`.

    Args:
        bring: returns when all is in the folder that was printed up to a moment ago, or soon; says what is missing.
    """

    def __init__(
        self,
        store: LocalStore,
        folder: str,
        task: str,
        bring: Callable[[], Awaitable[str]],
        *,
        lane: Lane = USUAL,
    ) -> None:
        super().__init__(store, folder, task, lane=lane)
        self._bring = bring

    async def missing(self) -> str:
        """As `Logs`."""
        return await self._bring()

    async def files(self) -> Sequence[LogFileInfo]:
        """As `Logs`."""
        await self._bring()
        return await super().files()

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """As `Logs`."""
        await self._bring()
        return await super().read(name, offset, most)

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> LogSearchResult:
        """As `Logs`."""
        await self._bring()
        return await super().find(name, text, offset, backwards=backwards)
