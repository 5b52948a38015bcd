"""All logs of a job in its directory: which there are, and their lines merged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tony.errors import StorageError
from tony.jobs.directory.log_search import SearchText
from tony.jobs.directory.merged_logs import LogPosition, LogSweep, MergedLines
from tony.jobs.directory.open_log import open_log
from tony.jobs.log_files import MAX_FOLLOWED_TASKS, Selection
from tony.linux.thread_pools import Lane
from tony.model.log_name import LogName
from tony.storage.stores.local_store import LocalStore

#: Logs that are merged; of more, the first ones.
MAX_MERGED_LOGS = 1000
_MAX_NOTES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogs:
    """The logs of a job in a folder.

    Args:
        store, folder: where they are.
        lane: threads that read.
        fetch: fetches recent output of a task; returns what is missing, why, and what to do, or an empty string.
    """

    store: LocalStore
    folder: str
    lane: Lane
    fetch: Callable[[str], Awaitable[str]]

    async def fetch_output(self, tasks: Sequence[str]) -> str:
        """Fetch recent output; return what is missing, why, and what to do, or an empty string."""
        missing = await asyncio.gather(*map(self.fetch, tasks[:MAX_FOLLOWED_TASKS]))
        return "; ".join(list(dict.fromkeys(filter(None, missing)))[:_MAX_NOTES])

    async def list_names(self) -> list[LogName]:
        """Return the names of all logs."""
        return await self.lane.run(self._list_names)

    async def read_lines(
        self,
        names: Sequence[LogName],
        selection: Selection,
        *,
        text: str = "",
        start: LogPosition | None = None,
        backwards: bool = False,
        most: int = 500,
    ) -> MergedLines:
        """Return lines of the selected ones of these logs, in the order of their times.

        Args:
            text: only lines that contain it; ASCII case is ignored.
            start: lines after this position, or before it if `backwards`.
        """
        chosen = selection.select(names)[:MAX_MERGED_LOGS]
        sweep = LogSweep(
            open_log=partial(open_log, self.store, self.folder),
            names=chosen,
            max_lines=most,
            backwards=backwards,
            text=SearchText(text) if text else None,
        )
        return await self.lane.run(sweep.read, start)

    def _list_names(self) -> list[LogName]:
        try:
            found = {LogName.parse(item.name) for item in self.store.list_files(self.folder)}
        except StorageError:
            return []
        return sorted((name for name in found if name is not None), key=lambda name: name.order)
