"""A task's logs that lie on other machines, brought into the job's folder when somebody looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tony.web.folder_logs import FolderLogs
from tony.web.masking import Mask
from tony.web.source import Found, LogBytes, LogFile


class NearLogs(FolderLogs):
    """As `Logs`.

    Args:
        bring: returns when all is in the folder that was printed up to a moment ago, or soon; says what is missing.
    """

    def __init__(self, folder: Path, task: str, mask: Mask, bring: Callable[[], Awaitable[str]]) -> None:
        super().__init__(folder, task, mask)
        self._bring = bring

    async def missing(self) -> str:
        """As `Logs`."""
        return await self._bring()

    async def files(self) -> Sequence[LogFile]:
        """As `Logs`."""
        await self._bring()
        return await super().files()

    async def read(self, name: str, offset: int, most: int) -> LogBytes:
        """As `Logs`."""
        await self._bring()
        return await super().read(name, offset, most)

    async def find(self, name: str, text: str, offset: int, *, backwards: bool = False) -> Found:
        """As `Logs`."""
        await self._bring()
        return await super().find(name, text, offset, backwards=backwards)
