"""Where an application stands in its queue, for people."""

from __future__ import annotations

from tests.facts import mentions
from tony.hadoop.wire.application_client import ApplicationReport
from tony.hadoop.wire.yarn_records import ApplicationId
from tony.schedulers.yarn.client.capacity import describe_queue_position


def report(number: int, queue: str = "default", cluster: int = 7) -> ApplicationReport:
    return ApplicationReport(id=ApplicationId(number=number, cluster_timestamp=cluster), queue=queue)


def test_the_older_ones_of_its_queue_are_before_it() -> None:
    """Others do not count; those of an earlier life of the ResourceManager are older."""
    waiting = [report(9), report(3), report(2, "other"), report(4), report(100, cluster=6)]
    assert mentions(describe_queue_position(report(4), waiting), "3 of 4", "pending", "default")


def test_alone() -> None:
    """Also if it is not in the list any longer."""
    assert mentions(describe_queue_position(report(4), []), "1 of 1", "pending", "default")
