"""Loads the status of a job for commands that only read it."""

from __future__ import annotations

from tony.history.job_record import read_summary
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder


def load_report(home: Home, job_id: str) -> JobReport:
    """Return the status of a job, like `tony.jobs.status.job_status.load_report`.

    For a job that has ended, its summary is enough: the modules that talk to a running job are not imported.
    """
    ended = read_summary(home.job(job_id))
    if ended is not None:
        return ended
    import asyncio

    from tony.jobs.status import job_status

    return asyncio.run(job_status.load_report(home, job_id))


def fetch_job_dir(home: Home, job_id: str) -> JobFolder:
    """Return the job directory after fetching what has been written to it on other machines."""
    import asyncio

    from tony.jobs.remote.remote_job_sync import refresh

    asyncio.run(refresh(home, job_id))
    return home.job(job_id)
