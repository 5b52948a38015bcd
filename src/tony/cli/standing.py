"""How a job stands, for commands that only look at it."""

from __future__ import annotations

from tony.history.record import read_summary
from tony.model.layout import Home
from tony.model.report import JobReport


def report_of(home: Home, job_id: str) -> JobReport:
    """The job as it stands; as `tony.client.facts.report`.

    Most jobs that somebody looks at have ended, and their summary says it all: nothing is loaded that would talk to a
    living one.
    """
    ended = read_summary(home.job(job_id))
    if ended is not None:
        return ended
    import asyncio

    from tony.client import facts

    return asyncio.run(facts.report(home, job_id))
