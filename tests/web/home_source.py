"""The jobs of one state directory, as the portal has them, but without its threads: each list begins with a scan."""

from __future__ import annotations

import contextlib
import os
import threading

from tony.linux.thread_pools import to_thread
from tony.model.job_query import JobsPage, Query
from tony.model.state_directory import Home
from tony.portal.histories.history_locations import open_location
from tony.portal.histories.scanner import Scanner
from tony.portal.indexed_jobs import IndexedJobs

#: One index has one writer.
_MUTEX = threading.Lock()


class HomeSource(IndexedJobs):
    """The `JobProvider` of one state directory.

    Args:
        user: owner of the state directory, as shown on pages.
    """

    def __init__(self, home: Home, user: str) -> None:
        self._store = open_location(str(home.path), home, os.environ)
        super().__init__(home, [self._store], f"jobs of {user}")

    async def list_jobs(self, query: Query) -> JobsPage:
        return await to_thread(self._scan_and_query, query)

    def _scan_and_query(self, query: Query) -> JobsPage:
        with _MUTEX, contextlib.closing(self.index):
            assert self.index.claim()
            Scanner(self._store, self.index).scan_fully()
            return self.index.query_page(query)
