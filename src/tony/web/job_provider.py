"""The job provider interface of pages and API. Implementations: the portal's index, a single job.

All methods are asynchronous and do blocking work in threads (`linux/thread_pools.py`).
"""

from __future__ import annotations

from typing import Protocol

from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import Lane
from tony.model.job_query import JobsPage, Query


class JobProvider(Protocol):
    """A job provider: many jobs, or a single one."""

    @property
    def title(self) -> str:
        """A few words that describe these jobs, for pages."""

    async def list_jobs(self, query: Query) -> JobsPage:
        """Return a page of the matching jobs.

        Raises:
            ValueError: `query.after` is not a page cursor.
        """

    async def find_job(self, job: str) -> DirectoryJobView | None:
        """Return a job by its full id; None if there is no such job."""


#: Logins, groups and the job index: local files of the portal, so that a list never waits for a job directory.
LISTS = Lane("the list of jobs", 15.0)
#: File systems and servers that a history or a job names.
STORES = Lane("a file system on other machines", 30.0)
