"""The jobs of a home, the living ones as their application masters say."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from fnmatch import fnmatchcase

from tony.client import facts
from tony.dataclass import dataclass
from tony.errors import TonyError
from tony.history.listing import JobHead, head_of_report, scan
from tony.linux.threads import beside
from tony.model.layout import Home
from tony.model.states import JobState

#: Jobs that are asked at the same time.
_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are wanted; None takes all.

    Attributes:
        name: the whole name; `*` and `?` stand for anything.
        since, until: bounds of the time of submission, seconds since 1970.
    """

    states: Collection[JobState] | None = None
    name: str | None = None
    user: str | None = None
    since: float | None = None
    until: float | None = None

    def takes(self, head: JobHead) -> bool:
        """Whether a job is wanted, its state left aside: that may have to be asked for first."""
        return (
            (self.name is None or fnmatchcase(head.name, self.name.replace("[", "[[]")))
            and (self.user is None or head.user == self.user)
            and (self.since is None or head.submitted >= self.since)
            and (self.until is None or head.submitted <= self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The answer.

    Attributes:
        heads: newest first.
        problems: one sentence for each job that something could not be learnt of.
    """

    heads: tuple[JobHead, ...]
    problems: tuple[str, ...]


async def list_jobs(home: Home, wanted: Filter) -> Jobs:
    """All jobs of a home that are wanted. Jobs whose application master died are closed on the way."""
    listing = await beside(scan, home)
    problems = [f"{job_id}: {why}" for job_id, why in sorted(listing.unreadable.items())]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(head: JobHead) -> JobHead:
        async with slots:
            try:
                return head_of_report(await facts.report(home, head.job))
            except TonyError as error:
                problems.append(f"{head.job}: {error}")
                return head

    ended = [head for head in listing.ended if wanted.takes(head)]
    living = await asyncio.gather(*(ask(head) for head in listing.open if wanted.takes(head)))
    heads = [head for head in (*ended, *living) if wanted.states is None or head.state in wanted.states]
    heads.sort(key=lambda head: (head.submitted, head.job), reverse=True)
    return Jobs(heads=tuple(heads), problems=tuple(problems))
