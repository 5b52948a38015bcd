"""Hours that were held for nothing, by user and week, of the jobs that a visitor may see."""

from __future__ import annotations

from collections import OrderedDict
from weakref import WeakKeyDictionary

from tony import clock
from tony.advice.unused_resources import Waste, WeekOfWaste, by_week, compute_unused
from tony.dataclass import dataclass
from tony.errors import RecordError, TonyError
from tony.linux.threads import Slots
from tony.model.job_query import MOST, Query
from tony.model.job_summary import JobHead
from tony.web.authorization import PortalUser, jobs_for
from tony.web.job_advice import run_from
from tony.web.job_source import Source

WEEK = 7 * 86400.0
#: Seconds that are looked back, unless something is said.
USUAL = 4 * WEEK
#: Jobs that are looked at, the newest; and of how many what was found is kept: of one that has ended it stays true.
LOOKED_AT, _KEPT = 300, 20_000
#: Seconds after which no further job is looked at: who asks again gets on from there.
_PATIENCE = 5.0
_FOUND: WeakKeyDictionary[Source, OrderedDict[str, Waste | None]] = WeakKeyDictionary()
#: One of a user at a time, and so many users.
_SLOTS = Slots(1, 4, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wasted:
    """The answer.

    Attributes:
        weeks: the newest first, in it who wasted most.
        jobs: that were summed up.
        unknown: of which it is not known what they held: no events were kept.
        left: jobs that nobody has looked at yet; asking again does.
        more: there are older ones, beyond `LOOKED_AT`.
    """

    weeks: tuple[WeekOfWaste, ...]
    jobs: int
    unknown: int
    left: int
    more: bool


async def waste_for(visitor: PortalUser, source: Source, since: float | None = None, user: str = "") -> Wasted:
    """Sums up the jobs that have ended.

    Args:
        since: submitted since then, seconds since 1970; `USUAL` ago if nothing is said.
        user: whose; everybody's whom the visitor may see if it is empty.
    """
    since = clock.wall() - USUAL if since is None else since
    wanted = Query(state="ended", since=since, user=user, most=min(LOOKED_AT, MOST))
    page = await jobs_for(visitor, source, wanted)
    heads = [head for head in page.heads if head.state.ended and not head.damaged]
    known = _FOUND.setdefault(source, OrderedDict())
    away, give_up = 0, clock.monotonic() + _PATIENCE
    async with _SLOTS.taken():
        for head in heads:
            if head.job not in known and clock.monotonic() < give_up:
                try:
                    known[head.job] = await _waste(source, head)
                except TonyError:  # a store that is away, perhaps: whoever asks next tries again
                    away += 1
    found = [known[head.job] for head in heads if head.job in known]
    while len(known) > _KEPT:
        known.popitem(last=False)
    wastes = [waste for waste in found if waste is not None]
    return Wasted(
        weeks=by_week(wastes),
        jobs=len(wastes),
        unknown=len(found) - len(wastes) + away,
        left=len(heads) - len(found) - away,
        more=bool(page.next),
    )


async def _waste(source: Source, head: JobHead) -> Waste | None:
    """Of one job; None if what it held will never be known.

    Raises:
        TonyError: it cannot be read just now.
    """
    try:
        view = await source.job(head.job)
        record = view and await view.record()
        return compute_unused(await run_from(view, record)) if view and record else None
    except RecordError:
        return None
