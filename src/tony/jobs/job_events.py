"""A job's events, while it runs and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from tony.history.event_log import LogEntry
from tony.history.event_tail import EventTail
from tony.history.job_record import record_of
from tony.jobs import job_status
from tony.jobs.remote_job_sync import refresh
from tony.linux.inotify import ChangeWatch
from tony.model.layout import Home

#: Seconds without an event after which to check whether the AM is still alive.
_CHECK_SECONDS = 1.0


async def events(home: Home, job_id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry, None]:
    """Yield a job's events, oldest first; with `follow` also new ones until it has ended.

    Raises:
        UnknownJobError: there is no such job.
        RecordError: its log cannot be read.
        SchedulerError: it runs in a cluster whose files cannot be read.
    """
    folder = home.job(job_id)
    submitter = job_status.submitter_of(home, record_of(home, job_id))
    far = not submitter.capabilities.same_host
    tail = EventTail(folder)
    with ChangeWatch() as changes:
        changes.add(folder.path)
        while True:
            last_look = not follow or folder.summary.exists()
            await refresh(home, job_id)
            for entry in tail.new():
                yield entry
            if last_look:
                return
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await changes.wait_change()
            except TimeoutError:
                if far or submitter.am_alive(folder) is False:
                    await job_status.load_report(home, job_id)
