"""Advice about a job, from what a source tells of it and of its earlier runs: those that the visitor may see."""

from __future__ import annotations

from collections.abc import Sequence

from tony import clock
from tony.advice.engine import advise
from tony.advice.facts import Facts, Run, is_same_job, run_of
from tony.advice.facts_loader import RUNS, same_job
from tony.advice.recommendation import Advice
from tony.errors import RecordError, TonyError
from tony.history.event_log import LogEntry
from tony.linux.threads import Slots, to_thread
from tony.model.job_query import Query
from tony.model.job_record import JobRecord
from tony.web.authorization import PortalAction, PortalUser, jobs_for
from tony.web.job_source import JobView, Source

#: Records that are opened to find earlier runs.
_OPENED = 50
#: Events that are read at once, and of one run at most: there is nothing to learn from more. Of another user's job
#: there is one answer only, for that is bounded in bytes.
_PORTION = 5000
_MOST = 200_000
#: Jobs that are thought about at the same time: each takes a processor.
_AT_ONCE = 2
_SLOTS = Slots(_AT_ONCE, _AT_ONCE, 1)


async def advice_about(view: JobView, visitor: PortalUser, source: Source) -> Advice:
    """What could be better about it.

    Raises:
        TonyError: its own record cannot be read.
    """
    record = await view.record()
    if record is None:
        raise RecordError(f"the record of {view.job} was not kept")
    async with _SLOTS.taken():
        runs = [await run_from(view, record)]
        problems: list[str] = []
        for other, theirs in await _before(record, visitor, source):
            try:
                runs.append(await run_from(other, theirs))
            except TonyError as error:
                problems.append(f"{other.job}: {error}")
            if len(runs) == RUNS:
                break
        return await to_thread(advise, Facts(runs=tuple(runs), problems=tuple(problems)))


async def _before(record: JobRecord, visitor: PortalUser, source: Source) -> Sequence[tuple[JobView, JobRecord]]:
    """Runs of the same job before it, newest first."""
    spec = record.spec
    wanted = Query(user=record.user, framework=spec.framework, state="ended", until=record.submitted, most=10 * _OPENED)
    page = await jobs_for(visitor, source, wanted)
    found: list[tuple[JobView, JobRecord]] = []
    for head in same_job(page.heads, record)[:_OPENED]:
        if not visitor.may(PortalAction.SEE, head):
            continue
        try:
            other = await source.job(head.job)
            theirs = await other.record() if other else None
        except TonyError:
            continue
        if other is not None and theirs is not None and is_same_job(record, theirs):
            found.append((other, theirs))
        if len(found) >= RUNS:
            break
    return found


async def run_from(view: JobView, record: JobRecord) -> Run:
    """One run, as facts for advice and waste.

    Raises:
        TonyError: no events of it were kept, or something of it cannot be read.
    """
    report = await view.report()
    entries: list[LogEntry] = []
    size = _PORTION if view.can_change else _MOST
    while len(entries) < _MOST:
        portion = await view.events(entries[-1].seq if entries else 0, size)
        entries += portion
        if len(portion) < size:
            break
    if not entries:
        raise RecordError(f"no events of {view.job} were kept")
    metrics = await view.metrics()
    ended = report.state.ended

    def work() -> Run:
        if metrics is None:
            return run_of(record, entries, None, report if ended else None, None if ended else clock.wall())
        with metrics:
            measured = metrics if metrics.known else None
            return run_of(record, entries, measured, report if ended else None, None if ended else clock.wall())

    return await to_thread(work)
