"""Where the programs of a portal's job stand. Blocking, as all that asks a portal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tony.errors import ConnectionFailed, InfraError
from tony.jobs.changing import select_tasks
from tony.jobs.log_names import named_tasks
from tony.jobs.portal_client import PortalClient
from tony.model.ids import TaskId
from tony.protocol.messages import Stacks


def stacks(portal: PortalClient, job: str, words: Sequence[str] = ()) -> Iterator[Stacks]:
    """As `tony.jobs.changing.stacks`, of a job of a portal.

    Raises:
        UserError: the job has no such task, or has ended, or we may not ask.
        InfraError: none of its programs runs now, or the portal fails.
    """
    report = portal.report(job)
    for task in select_tasks(report, named_tasks(job, [TaskId.parse(each.task) for each in report.tasks], words)):
        try:
            yield portal.stacks(job, task)
        except ConnectionFailed:  # the portal itself is gone
            raise
        except InfraError as error:
            yield Stacks(task=task, problem=str(error))
