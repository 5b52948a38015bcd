"""Where an application stands among those that wait in its queue."""

from __future__ import annotations

from collections.abc import Iterable

from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.wire.yarn_records import ApplicationId

#: Of applications whose master does not run yet.
WAITING = (
    ApplicationState.NEW,
    ApplicationState.NEW_SAVING,
    ApplicationState.SUBMITTED,
    ApplicationState.ACCEPTED,
)


def describe_queue_position(own: ApplicationReport, waiting: Iterable[ApplicationReport]) -> str:
    """For people: `it is number 2 of 3 that wait in queue default`. By age: a scheduler may have another order.

    Args:
        waiting: every application that waits, of all queues.
    """
    queue = own.queue or "default"
    ages = [_age(report.id) for report in waiting if report.queue == own.queue and report.id]
    before = sum(age < _age(own.id) for age in ages)
    together = len({*ages, _age(own.id)})
    return f"it is number {before + 1} of {together} that wait in queue {queue}"


def _age(application: ApplicationId | None) -> tuple[int, int]:
    """Ids are given in the order of submissions."""
    return (application.cluster_timestamp or 0, application.number or 0) if application else (0, 0)
