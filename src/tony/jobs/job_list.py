"""The jobs of a home, the living ones as their application masters say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from tony.dataclass import dataclass
from tony.errors import ConnectionFailed, TonyError
from tony.history.ended_jobs_index import JobHead, head_of_report
from tony.history.job_listing import JobListing, scan
from tony.model.layout import Home
from tony.model.states import JobState

#: Jobs that are asked at the same time.
_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are wanted; None takes all.

    Attributes:
        name: the whole name; `*` and `?` stand for anything.
        scheduler: whose jobs; it is asked for those, too, that are not recorded here.
        since, until: bounds of the time of submission, seconds since 1970.
    """

    states: Collection[JobState] | None = None
    name: str | None = None
    user: str | None = None
    scheduler: str | None = None
    since: float | None = None
    until: float | None = None

    def takes(self, head: JobHead) -> bool:
        """Whether a job is wanted, its state left aside: that may have to be asked for first."""
        return (
            (self.name is None or fnmatchcase(head.name, self.name.replace("[", "[[]")))
            and (self.user is None or head.user == self.user)
            and (self.scheduler is None or head.scheduler == self.scheduler)
            and (self.since is None or head.submitted >= self.since)
            and (self.until is None or head.submitted <= self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The answer.

    Attributes:
        heads: newest first.
        problems: one sentence for each reason why something could not be learnt of jobs.
    """

    heads: tuple[JobHead, ...]
    problems: tuple[str, ...]


def ended_jobs(home: Home, wanted: Filter) -> Jobs | None:
    """As `list_jobs`, if nobody has to be asked; else None. Blocking; loads nothing of what talks to living masters."""
    if wanted.scheduler is not None:
        return None
    listing = scan(home)
    return None if _open(listing, wanted) else _chosen(listing, (), (), wanted)


async def list_jobs(home: Home, wanted: Filter) -> Jobs:
    """All jobs of a home that are wanted. Jobs whose application master died are closed on the way.

    Raises:
        SchedulerError: the scheduler whose jobs are wanted is not there, or cannot be asked.
    """
    # Half of what a list of ended jobs would cost.
    import asyncio

    from tony.jobs import facts
    from tony.jobs.cached_status import last_known
    from tony.linux.threads import to_thread

    elsewhere = await _jobs_of(home, wanted.scheduler) if wanted.scheduler else {}
    listing = await to_thread(scan, home)
    slots = asyncio.Semaphore(_AT_ONCE)
    unknown: dict[str, list[str]] = {}

    async def ask(head: JobHead) -> JobHead:
        async with slots:
            try:
                return head_of_report(await facts.load_report(home, head.job))
            except TonyError as error:
                unknown.setdefault(" ".join(str(error).split()), []).append(head.job)
                if head.job in elsewhere or not isinstance(error, ConnectionFailed):
                    return elsewhere.get(head.job, head)
                return head_of_report(await last_known(home, head.job))

    living = await asyncio.gather(*(ask(head) for head in _open(listing, wanted)))
    here = {head.job for head in (*listing.ended, *listing.open)}
    foreign = [head for job, head in elsewhere.items() if job not in here and wanted.takes(head)]
    problems = [f"{_named(jobs)}: {why}" for why, jobs in unknown.items()]
    return _chosen(listing, (*living, *foreign), problems, wanted)


def _named(jobs: list[str]) -> str:
    """The newest, and how many more there are."""
    return max(jobs) + (f" and {len(jobs) - 1} more" if len(jobs) > 1 else "")


async def _jobs_of(home: Home, scheduler: str) -> Mapping[str, JobHead]:
    """What a scheduler knows of jobs, by their ids. Of their tasks it knows nothing."""
    from tony.schedulers import registry

    found = await registry.load(scheduler).submitter(home).all_jobs()
    return {
        each.job: JobHead(
            job=each.job,
            name=each.name,
            state=each.state,
            user=each.user,
            scheduler=scheduler,
            framework="",
            tasks=None,
            submitted=each.submitted,
            ended=each.ended,
            exit_code=each.exit_code,
            reason=each.reason,
        )
        for each in found
    }


def _open(listing: JobListing, wanted: Filter) -> list[JobHead]:
    return [head for head in listing.open if wanted.takes(head)]


def _chosen(listing: JobListing, living: Collection[JobHead], problems: Collection[str], wanted: Filter) -> Jobs:
    ended = [head for head in listing.ended if wanted.takes(head)]
    heads = [head for head in (*ended, *living) if wanted.states is None or head.state in wanted.states]
    heads.sort(key=lambda head: (head.submitted, head.job), reverse=True)
    unreadable = [f"{job_id}: {why}" for job_id, why in sorted(listing.unreadable.items())]
    return Jobs(heads=tuple(heads), problems=(*unreadable, *problems))
