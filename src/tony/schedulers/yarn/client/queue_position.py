"""Position of an application among the pending ones of its queue."""

from __future__ import annotations

from collections.abc import Iterable

from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import ApplicationId

#: States of applications whose AM is not running yet.
WAITING = (
    ApplicationState.NEW,
    ApplicationState.NEW_SAVING,
    ApplicationState.SUBMITTED,
    ApplicationState.ACCEPTED,
)


def describe_queue_position(own: ApplicationReport, waiting: Iterable[ApplicationReport]) -> str:
    """Return `position 2 of 3 pending applications in queue default`. By age; a scheduler may use another order.

    Args:
        waiting: all pending applications, of all queues.
    """
    queue = own.queue or "default"
    ages = [_age(report.id) for report in waiting if report.queue == own.queue and report.id]
    before = sum(age < _age(own.id) for age in ages)
    together = len({*ages, _age(own.id)})
    return f"position {before + 1} of {together} pending applications in queue {queue}"


def _age(application: ApplicationId | None) -> tuple[int, int]:
    """Return a sort key: ids are allocated in the order of submissions."""
    return (application.cluster_timestamp or 0, application.number or 0) if application else (0, 0)
