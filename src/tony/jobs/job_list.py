"""List the jobs of a state directory; the status of running ones comes from their AMs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tony.errors import ConnectionFailedError, SchedulerError, TonyError, join_lines
from tony.history.directory_scan import JobListing, scan
from tony.model.job_summary import JobHead, head_of_report
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.schedulers import registry

#: Jobs queried concurrently.
_CONCURRENT_QUERIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects jobs; None matches all.

    Attributes:
        name: pattern for the whole name, with `*` and `?`.
        scheduler: also lists jobs known only to this scheduler.
        since, until: bounds of the submission time, seconds since 1970.
    """

    states: Collection[JobState] | None = None
    name: str | None = None
    user: str | None = None
    scheduler: str | None = None
    since: float | None = None
    until: float | None = None

    def matches(self, head: JobHead) -> bool:
        """Return True if a job matches, ignoring its state, which may have to be queried first."""
        return (
            (self.name is None or fnmatchcase(head.name, self.name.replace("[", "[[]")))
            and (self.user is None or head.user == self.user)
            and (self.scheduler is None or head.scheduler == self.scheduler)
            and (self.since is None or head.submitted >= self.since)
            and (self.until is None or head.submitted <= self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The result of listing jobs.

    Attributes:
        heads: newest first.
        problems: one sentence for each reason why the status of some jobs is unknown.
    """

    heads: tuple[JobHead, ...]
    problems: tuple[str, ...]


def list_ended_jobs(home: Home, job_filter: Filter) -> Jobs | None:
    """Like `list_jobs`, but None if an AM or scheduler must be queried. Blocking; loads no networking modules."""
    if job_filter.scheduler is not None:
        return None
    listing = scan(home)
    return None if _open(listing, job_filter) else _select(listing, (), (), job_filter)


async def list_jobs(home: Home, job_filter: Filter) -> Jobs:
    """List all matching jobs of a state directory. Jobs whose AM died are finalized on the way.

    Raises:
        SchedulerError: the scheduler of the filter cannot be reached.
    """
    # Late: these imports would double the time to list ended jobs.
    import asyncio  # late: only a list with running jobs asks their AMs

    from tony.jobs.status import job_status  # late: only a list with running jobs asks their AMs
    from tony.linux.thread_pools import to_thread

    elsewhere = await _query_scheduler_jobs(home, job_filter.scheduler) if job_filter.scheduler else {}
    listing = await to_thread(scan, home)
    slots = asyncio.Semaphore(_CONCURRENT_QUERIES)
    unknown: dict[str, list[str]] = {}

    async def query(head: JobHead) -> JobHead:
        async with slots:
            try:
                return head_of_report(await job_status.load_report(home, head.job))
            except TonyError as error:
                unknown.setdefault(join_lines(error), []).append(head.job)
                if head.job in elsewhere or not isinstance(error, ConnectionFailedError | SchedulerError):
                    return elsewhere.get(head.job, head)
                return head_of_report(await job_status.load_last_known_report(home, head.job, error))

    living = await asyncio.gather(*(query(head) for head in _open(listing, job_filter)))
    local_jobs = {head.job for head in (*listing.ended, *listing.open)}
    unrecorded = [head for job, head in elsewhere.items() if job not in local_jobs and job_filter.matches(head)]
    problems = [f"{_name_jobs(jobs)}: {why}" for why, jobs in unknown.items()]
    return _select(listing, (*living, *unrecorded), problems, job_filter)


def _name_jobs(jobs: list[str]) -> str:
    """Name the newest job, and how many more there are."""
    return max(jobs) + (f" and {len(jobs) - 1} more" if len(jobs) > 1 else "")


async def _query_scheduler_jobs(home: Home, scheduler: str) -> Mapping[str, JobHead]:
    """Return the jobs that a scheduler knows, by id. Schedulers do not know tasks."""
    found = await registry.load(scheduler).create_submitter(home).list_jobs()
    return {
        entry.job: JobHead(
            job=entry.job,
            name=entry.name,
            state=entry.state,
            user=entry.user,
            scheduler=scheduler,
            framework="",
            tasks=None,
            submitted=entry.submitted,
            ended=entry.ended,
            exit_code=entry.exit_code,
            reason=entry.reason,
        )
        for entry in found
    }


def _open(listing: JobListing, job_filter: Filter) -> list[JobHead]:
    return [head for head in listing.open if job_filter.matches(head)]


def _select(listing: JobListing, living: Collection[JobHead], problems: Collection[str], job_filter: Filter) -> Jobs:
    ended = [head for head in listing.ended if job_filter.matches(head)]
    heads = [head for head in (*ended, *living) if job_filter.states is None or head.state in job_filter.states]
    heads.sort(key=lambda head: (head.submitted, head.job), reverse=True)
    unreadable = [f"{job_id}: {why}" for job_id, why in sorted(listing.unreadable.items())]
    return Jobs(heads=tuple(heads), problems=(*unreadable, *problems))
