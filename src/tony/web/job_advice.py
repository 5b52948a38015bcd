"""Recommendations for a job, computed from it and from those of its earlier runs that the user may see."""

from __future__ import annotations

from collections.abc import Sequence

from tony import clock
from tony.advice.engine import advise
from tony.advice.facts import Facts, Run, is_same_job, run_of
from tony.advice.facts_loader import RUNS, same_job
from tony.advice.recommendation import Advice
from tony.errors import RecordError, TonyError
from tony.history.event_log import LogEntry
from tony.linux.thread_pools import Slots, to_thread
from tony.model.job_query import Query
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction, PortalUser, jobs_for
from tony.web.job_source import ServedJob, Source

#: Jobs that are opened to find earlier runs.
_MAX_OPENED_JOBS = 50
#: Events that are read at once, and of one run at most: more would not change the recommendations. Another user's job
#: is read in one request, which is bounded in bytes.
_EVENTS_PER_READ = 5000
_MAX_EVENTS = 200_000
#: Jobs that are analysed concurrently: each takes a CPU core.
_CONCURRENT_JOBS = 2
_SLOTS = Slots(_CONCURRENT_JOBS, _CONCURRENT_JOBS, 1)


async def advice_about(view: ServedJob, portal_user: PortalUser, source: Source) -> Advice:
    """Return the recommendations for a job.

    Raises:
        TonyError: the job's directory cannot be read.
    """
    record = await view.record()
    if record is None:
        raise RecordError(f"the configuration of {view.job} was not kept")
    async with _SLOTS.taken():
        runs = [await run_from(view, record)]
        problems: list[str] = []
        for other, other_record in await _find_earlier_runs(record, portal_user, source):
            try:
                runs.append(await run_from(other, other_record))
            except TonyError as error:
                problems.append(f"{other.job}: {error}")
            if len(runs) == RUNS:
                break
        return await to_thread(advise, Facts(runs=tuple(runs), problems=tuple(problems)))


async def _find_earlier_runs(
    record: JobRecord, portal_user: PortalUser, source: Source
) -> Sequence[tuple[ServedJob, JobRecord]]:
    """Return earlier runs of the same job, newest first."""
    spec = record.spec
    query = Query(
        user=record.user, framework=spec.framework, state="ended", until=record.submitted, most=10 * _MAX_OPENED_JOBS
    )
    page = await jobs_for(portal_user, source, query)
    found: list[tuple[ServedJob, JobRecord]] = []
    for head in same_job(page.heads, record)[:_MAX_OPENED_JOBS]:
        if not portal_user.may(PortalAction.SEE, head):
            continue
        try:
            other = await source.job(head.job)
            other_record = await other.record() if other else None
        except TonyError:
            continue
        if other is not None and other_record is not None and is_same_job(record, other_record):
            found.append((other, other_record))
        if len(found) >= RUNS:
            break
    return found


async def run_from(view: ServedJob, record: JobRecord) -> Run:
    """Return the facts of one run, as needed for recommendations and unused resources.

    Raises:
        TonyError: its events were not kept, or a part of it cannot be read.
    """
    report = await view.report()
    entries: list[LogEntry] = []
    size = _EVENTS_PER_READ if view.can_change else _MAX_EVENTS
    while len(entries) < _MAX_EVENTS:
        portion = await view.events(entries[-1].seq if entries else 0, size)
        entries += portion
        if len(portion) < size:
            break
    if not entries:
        raise RecordError(f"the events of {view.job} were not kept")
    metrics = await view.metrics()
    ended = report.state.ended

    def work() -> Run:
        if metrics is None:
            return run_of(record, entries, None, report if ended else None, None if ended else clock.wall())
        with metrics:
            measured = metrics if metrics.known else None
            return run_of(record, entries, measured, report if ended else None, None if ended else clock.wall())

    return await to_thread(work)
