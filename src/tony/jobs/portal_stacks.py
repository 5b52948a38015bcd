"""Stack traces of a job's tasks, read through a portal. Blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tony.errors import ConnectionFailed, InfraError
from tony.jobs.changing import select_tasks
from tony.jobs.log_names import named_tasks
from tony.jobs.portal_client import PortalClient
from tony.model.ids import TaskId
from tony.protocol.messages import Stacks


def stacks(portal: PortalClient, job: str, words: Sequence[str] = ()) -> Iterator[Stacks]:
    """Like `tony.jobs.changing.stacks`, for a job of a portal.

    Raises:
        UserError: the job has no such task or has ended, or the user is not allowed.
        InfraError: no task is running, or the portal fails.
    """
    report = portal.report(job)
    for task in select_tasks(report, named_tasks(job, [TaskId.parse(each.task) for each in report.tasks], words)):
        try:
            yield portal.stacks(job, task)
        except ConnectionFailed:  # the portal itself cannot be reached
            raise
        except InfraError as error:
            yield Stacks(task=task, problem=str(error))
