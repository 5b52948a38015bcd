"""Recommendations for a job, and reserved but unused GPU- and GB-hours, of the jobs that the user may see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tony import clock
from tony.advice.engine import advise
from tony.advice.facts_loader import load_facts, load_run
from tony.advice.heuristics.memory import MemoryUnderRequested
from tony.advice.recommendation import Advice, Recommendation
from tony.advice.wasted_hours import Waste, WeekOfWaste, compute_unused, sum_by_week
from tony.errors import RecordError, TonyError
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.root_cause import describe_root_cause
from tony.linux.thread_pools import Slots, to_thread
from tony.model.diagnosis import FailureKind
from tony.model.failure import Failure
from tony.model.job_query import MAX_PAGE_JOBS, Query
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord
from tony.web.authorization import PortalAction, User, list_visible_jobs
from tony.web.job_provider import JobProvider

#: Jobs of one user and framework among which earlier runs are searched.
_MAX_LISTED_JOBS = 500
#: Jobs that are analysed concurrently: each takes a CPU core.
_CONCURRENT_JOBS = 2
_ADVICE_SLOTS = Slots(_CONCURRENT_JOBS, _CONCURRENT_JOBS, 1)
WEEK = 7 * 86400.0
#: Default period, in seconds.
DEFAULT_PERIOD_SECONDS = 4 * WEEK
#: Jobs per request: the newest.
MAX_JOBS = 300
#: Jobs whose result is cached: that of a finished job does not change.
_MAX_CACHED_JOBS = 20_000
#: Time after which a request reads no further job; the next request continues there.
_TIME_LIMIT_SECONDS = 5.0
#: Kind of a failure -> the heuristics whose recommendations answer it.
_ANSWERS = {FailureKind.MEMORY: (MemoryUnderRequested.name,)}
_CACHE: WeakKeyDictionary[JobProvider, OrderedDict[str, Waste | None]] = WeakKeyDictionary()
#: One request per user at a time, of at most four users.
_WASTE_SLOTS = Slots(1, 4, 1)


def drop_answers(advice: Advice, failure: Failure | None) -> list[Recommendation]:
    """Return the recommendations but those that the card of the failure gives already, as lines of the job file."""
    cause = describe_root_cause(failure) if failure else None
    if cause is None or not cause.patch:
        return list(advice.findings)
    names = _ANSWERS.get(cause.class_, ())
    role = cause.root_task.role if cause.root_task else ""
    return [each for each in advice.findings if each.heuristic not in names or each.role != role]


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

    async with _ADVICE_SLOTS.take():
        return await to_thread(advise, await load_facts(view, list_ended, provider.find_job))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedHours:
    """Unused resources by user and week.

    Attributes:
        weeks: newest first; in a week, the user with the most unused resources first.
        jobs: number of jobs included.
        unknown: number of jobs whose usage is unknown because their events were not kept.
        left: number of jobs not analysed yet; the next request continues with them.
        more: there are older jobs that were left out.
    """

    weeks: tuple[WeekOfWaste, ...]
    jobs: int
    unknown: int
    left: int
    more: bool


async def compute_waste(
    portal_user: User, provider: JobProvider, since: float | None = None, user: str = ""
) -> UnusedHours:
    """Sum up the unused resources of finished jobs.

    Args:
        since: of jobs submitted since then, seconds since 1970; `DEFAULT_PERIOD_SECONDS` ago by default.
        user: of this user's jobs only; empty: of all users.
    """
    since = clock.wall() - DEFAULT_PERIOD_SECONDS if since is None else since
    query = Query(state="ended", since=since, user=user, most=min(MAX_JOBS, MAX_PAGE_JOBS))
    page = await list_visible_jobs(portal_user, provider, query)
    heads = [head for head in page.heads if head.state.ended and not head.damaged]
    known = _CACHE.setdefault(provider, OrderedDict())
    unreadable, deadline = 0, clock.monotonic() + _TIME_LIMIT_SECONDS
    async with _WASTE_SLOTS.take():
        for head in heads:
            if head.job not in known and clock.monotonic() < deadline:
                try:
                    known[head.job] = await _compute(provider, head)
                except TonyError:  # perhaps a store that is unavailable: not cached, the next request tries again
                    unreadable += 1
    found = [known[head.job] for head in heads if head.job in known]
    while len(known) > _MAX_CACHED_JOBS:
        known.popitem(last=False)
    wastes = [waste for waste in found if waste is not None]
    return UnusedHours(
        weeks=sum_by_week(wastes),
        jobs=len(wastes),
        unknown=len(found) - len(wastes) + unreadable,
        left=len(heads) - len(found) - unreadable,
        more=bool(page.next),
    )


async def _compute(provider: JobProvider, head: JobHead) -> Waste | None:
    """Return the unused resources of one job; None if they can never be known.

    Raises:
        TonyError: the job cannot be read right now.
    """
    try:
        view = await provider.find_job(head.job)
        record = view and await view.record()
        return compute_unused(await load_run(view, record)) if view and record else None
    except RecordError:
        return None
