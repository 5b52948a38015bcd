"""Who asks, many jobs, and one among them."""

from __future__ import annotations

from tony import __version__, clock
from tony.dataclass import replace
from tony.jobs.comparison import ComparedJob, Comparison
from tony.model.job_query import from_words
from tony.model.job_report import JobReport, TaskReport
from tony.web.api.operation import ApiError, OperationCall
from tony.web.api.responses import JobList, Me, TaskList
from tony.web.authorization import jobs_for
from tony.web.job_comparison import comparison
from tony.web.principal import User
from tony.web.unused_resources import WEEK, Wasted, waste_for


async def me(call: OperationCall) -> Me:
    """Who asks."""
    visitor = call.visitor
    guest = visitor if isinstance(visitor, User) else None
    return Me(
        user=visitor.name,
        how=guest.how.value if guest else "",
        admin=bool(guest and guest.admin),
        page_token=visitor.token,
        title=call.source.title,
        only=call.only,
        version=__version__,
    )


async def jobs(call: OperationCall) -> JobList:
    """A page of jobs."""
    try:
        query = from_words(call.request.query_params)
        page = await jobs_for(call.visitor, call.source, query)
    except ValueError as error:
        raise ApiError(400, "bad-parameter", f"{error}") from error
    return JobList(jobs=page.heads, next=page.next, total=page.total, facets=page.facets, problems=tuple(page.problems))


async def waste(call: OperationCall) -> Wasted:
    """Hours that were held for nothing."""
    since = clock.wall() - call.values["weeks"] * WEEK
    return await waste_for(call.visitor, call.source, since, call.values["user"])


async def job(call: OperationCall) -> JobReport:
    """How one job stands."""
    _, report = await call.job()
    return report if call.values["tasks"] else replace(report, tasks=())


async def compare(call: OperationCall) -> Comparison:
    """Two of them; their tasks are left out."""
    found = await comparison(await call.job(), await call.job("with"))
    return replace(found, a=_without_tasks(found.a), b=_without_tasks(found.b))


def _without_tasks(side: ComparedJob) -> ComparedJob:
    return replace(side, report=replace(side.report, tasks=()))


async def tasks(call: OperationCall) -> TaskList:
    """A page of its tasks, in the order of the job file."""
    _, report = await call.job()
    role, state, after, most = (call.values[name] for name in ("role", "state", "after", "most"))
    found = [each for each in report.tasks if role in ("", each.role) and state in ("", each.state.value)]
    start = 0
    if after is not None:
        names = [each.task for each in report.tasks]
        if str(after) not in names:
            raise ApiError(400, "bad-parameter", f"after: the job has no task {after}.", "Leave it out to begin.")
        behind = set(names[names.index(str(after)) + 1 :])
        start = next((number for number, each in enumerate(found) if each.task in behind), len(found))
    page = found[start : start + most]
    return TaskList(
        tasks=tuple(page), next=page[-1].task if page and start + most < len(found) else "", total=len(found)
    )


async def task(call: OperationCall) -> TaskReport:
    """How one task stands."""
    _, report = await call.job()
    name = call.task(report)
    return next(each for each in report.tasks if each.task == name)
