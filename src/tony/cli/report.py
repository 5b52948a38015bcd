"""How a job stands, for commands that only look at it."""

from __future__ import annotations

from tony.history.job_record import read_summary
from tony.model.job_report import JobReport
from tony.model.layout import Home, JobFolder


def load_report(home: Home, job_id: str) -> JobReport:
    """The job as it stands; as `tony.jobs.facts.load_report`.

    Most jobs that somebody looks at have ended, and their summary says it all: nothing is loaded that would talk to a
    living one.
    """
    ended = read_summary(home.job(job_id))
    if ended is not None:
        return ended
    import asyncio

    from tony.jobs import facts

    return asyncio.run(facts.load_report(home, job_id))


def fetch_job_dir(home: Home, job_id: str) -> JobFolder:
    """A job's folder, with all of its record that there is by now, wherever it was written."""
    import asyncio

    from tony.jobs.remote_jobs import refresh

    asyncio.run(refresh(home, job_id))
    return home.job(job_id)
