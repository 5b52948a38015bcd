"""Recommendations for a job, computed from it and from those of its earlier runs that the user may see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tony.advice.engine import advise
from tony.advice.facts import Facts, Run, is_same_job
from tony.advice.facts_loader import RUNS, read_run, same_job
from tony.advice.recommendation import Advice
from tony.errors import RecordError, TonyError
from tony.jobs.directory.view import DirectoryJobView
from tony.linux.thread_pools import Slots, to_thread
from tony.model.job_query import Query
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction, PortalUser, list_visible_jobs
from tony.web.job_source import Source

#: Jobs that are opened to find earlier runs.
_MAX_OPENED_JOBS = 50
#: Events that are read of one run: more would not change the recommendations.
_MAX_EVENTS = 200_000
#: Jobs that are analysed concurrently: each takes a CPU core.
_CONCURRENT_JOBS = 2
_SLOTS = Slots(_CONCURRENT_JOBS, _CONCURRENT_JOBS, 1)


async def load_advice(view: DirectoryJobView, portal_user: PortalUser, source: Source) -> Advice:
    """Return the recommendations for a job.

    Raises:
        TonyError: the job's directory cannot be read.
    """
    record = await view.record()
    if record is None:
        raise RecordError(f"the configuration of {view.id} was not kept")
    async with _SLOTS.taken():
        runs = [await load_run(view, record)]
        problems: list[str] = []
        for other, other_record in await _find_earlier_runs(record, portal_user, source):
            try:
                runs.append(await load_run(other, other_record))
            except TonyError as error:
                problems.append(f"{other.id}: {error}")
            if len(runs) == RUNS:
                break
        return await to_thread(advise, Facts(runs=tuple(runs), problems=tuple(problems)))


async def _find_earlier_runs(
    record: JobRecord, portal_user: PortalUser, source: Source
) -> Sequence[tuple[DirectoryJobView, JobRecord]]:
    """Return earlier runs of the same job, newest first."""
    spec = record.spec
    query = Query(
        user=record.user, framework=spec.framework, state="ended", until=record.submitted, most=10 * _MAX_OPENED_JOBS
    )
    page = await list_visible_jobs(portal_user, source, query)
    found: list[tuple[DirectoryJobView, JobRecord]] = []
    for head in same_job(page.heads, record)[:_MAX_OPENED_JOBS]:
        if not portal_user.may(PortalAction.SEE, head):
            continue
        try:
            other = await source.find_job(head.job)
            other_record = await other.record() if other else None
        except TonyError:
            continue
        if other is not None and other_record is not None and is_same_job(record, other_record):
            found.append((other, other_record))
        if len(found) >= RUNS:
            break
    return found


async def load_run(view: DirectoryJobView, record: JobRecord) -> Run:
    """Return the facts of one run, as needed for recommendations and unused resources.

    Raises:
        TonyError: its events were not kept, or a part of it cannot be read.
    """
    return await view.read_directory(partial(read_run, record=record, most_events=_MAX_EVENTS))
