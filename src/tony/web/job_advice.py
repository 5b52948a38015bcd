"""Recommendations for a job, computed from it and from those of its earlier runs that the user may see."""

from __future__ import annotations

from collections.abc import Iterable

from tony.advice.engine import advise
from tony.advice.facts_loader import load_facts
from tony.advice.recommendation import Advice
from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import Slots, to_thread
from tony.model.job_query import Query
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction, User, list_visible_jobs
from tony.web.job_provider import JobProvider

#: Jobs of one user and framework among which earlier runs are searched.
_MAX_LISTED_JOBS = 500
#: Jobs that are analysed concurrently: each takes a CPU core.
_CONCURRENT_JOBS = 2
_SLOTS = Slots(_CONCURRENT_JOBS, _CONCURRENT_JOBS, 1)


async def load_advice(view: DirectoryJobView, portal_user: User, provider: JobProvider) -> Advice:
    """Return the recommendations for a job.

    Raises:
        TonyError: the job's directory cannot be read.
    """

    async def list_ended(record: JobRecord) -> Iterable[JobHead]:
        user, framework = record.user, record.spec.framework
        query = Query(user=user, framework=framework, state="ended", until=record.submitted, most=_MAX_LISTED_JOBS)
        page = await list_visible_jobs(portal_user, provider, query)
        return [head for head in page.heads if portal_user.may(PortalAction.SEE, head)]

    async with _SLOTS.take():
        return await to_thread(advise, await load_facts(view, list_ended, provider.find_job))
