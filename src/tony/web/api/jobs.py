"""Operations on the current user, on lists of jobs, and on one job's report and tasks."""

from __future__ import annotations

from dataclasses import replace

from tony import __version__, clock
from tony.jobs.comparison import ComparedJob, Comparison, compare_jobs
from tony.model.job_query import from_words
from tony.model.job_report import JobReport, TaskReport
from tony.web.api.operation import ApiError, OperationCall
from tony.web.api.response_types import CurrentUser, JobList, TaskList
from tony.web.authorization import list_visible_jobs
from tony.web.unused_resources import WEEK, UnusedHours, compute_waste


async def get_current_user(call: OperationCall) -> CurrentUser:
    """Return the authenticated user."""
    user = call.portal_user
    return CurrentUser(
        user=user.name,
        how=user.how.value,
        admin=user.admin,
        page_token=user.token,
        title=call.provider.title,
        only=call.only,
        version=__version__,
    )


async def list_jobs(call: OperationCall) -> JobList:
    """Return a page of jobs."""
    try:
        query = from_words(call.request.query_params)
        page = await list_visible_jobs(call.portal_user, call.provider, query)
    except ValueError as error:
        raise ApiError(400, "bad-parameter", f"{error}") from error
    return JobList(jobs=page.heads, next=page.next, total=page.total, facets=page.facets, problems=tuple(page.problems))


async def get_waste(call: OperationCall) -> UnusedHours:
    """Return the unused resources of finished jobs."""
    since = clock.wall() - call.values["weeks"] * WEEK
    return await compute_waste(call.portal_user, call.provider, since, call.values["user"])


async def get_job(call: OperationCall) -> JobReport:
    """Return the status of a job."""
    _, report = await call.find_job()
    return report if call.values["tasks"] else replace(report, tasks=())


async def compare(call: OperationCall) -> Comparison:
    """Compare two jobs; the reports contain no tasks."""
    found = await compare_jobs((await call.find_job())[0], (await call.find_job("with"))[0])
    return replace(found, a=_drop_tasks(found.a), b=_drop_tasks(found.b))


def _drop_tasks(side: ComparedJob) -> ComparedJob:
    return replace(side, report=replace(side.report, tasks=()))


async def list_tasks(call: OperationCall) -> TaskList:
    """Return a page of a job's tasks, in the order of the job file."""
    _, report = await call.find_job()
    role, state, after, most = (call.values[name] for name in ("role", "state", "after", "most"))
    found = [task for task in report.tasks if role in ("", task.role) and state in ("", task.state.value)]
    start = 0
    if after is not None:
        names = [task.task for task in report.tasks]
        if str(after) not in names:
            raise ApiError(400, "bad-parameter", f"after: the job has no task {after}.", "Omit it for the first page.")
        remaining = set(names[names.index(str(after)) + 1 :])
        start = next((number for number, each in enumerate(found) if each.task in remaining), len(found))
    page = found[start : start + most]
    return TaskList(
        tasks=tuple(page), next=page[-1].task if page and start + most < len(found) else "", total=len(found)
    )


async def get_task(call: OperationCall) -> TaskReport:
    """Return the status of a task."""
    _, report = await call.find_job()
    name = call.find_task(report)
    return next(task for task in report.tasks if task.task == name)
