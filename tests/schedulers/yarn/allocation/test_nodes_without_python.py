"""A node without a suitable Python costs one try; too many of them fail the role."""

from __future__ import annotations

from collections.abc import Mapping

from tony.core.events import Event, Unsatisfiable
from tony.schedulers.yarn.allocation.nodes_without_python import NodesWithoutPython


class Job:
    """What was left out, and told."""

    def __init__(self, room: Mapping[str, int]) -> None:
        self.left_out: list[str] = []
        self.told: list[Event] = []
        self.nodes = NodesWithoutPython(room, leave_out=self.left_out.append, emit=self.told.append)


def refused(said: str) -> Unsatisfiable:
    return Unsatisfiable(role="worker", reason=f"cannot start any task of worker: {said}")


def test_without_known_nodes_the_first_failure_is_reported() -> None:
    """Otherwise it would stay unknown if YARN had no other node either."""
    job = Job({"ps": 5})
    job.nodes.add("worker", "n1", "none on n1.")
    assert (job.left_out, job.told) == (["n1"], [refused("none on n1.")])


def test_each_node_counts_once() -> None:
    """However many containers were on it."""
    job = Job({"worker": 2})
    job.nodes.add("worker", "n1", "none on n1.")
    job.nodes.add("worker", "n1", "none on n1.")
    assert (job.left_out, job.told, job.nodes.hosts) == (["n1"], [], ("n1",))
    job.nodes.add("worker", "n2", "none on n2.")
    assert (job.left_out, job.told) == (["n1", "n2"], [refused("none on n2. The same error occurred on n1.")])


def test_three_are_enough() -> None:
    """A large cluster is not tried out to the last node; nodes that another role has tried count as well."""
    job = Job({"worker": 500, "ps": 500})
    for host, role in (("n1", "ps"), ("n2", "worker")):
        job.nodes.add(role, host, "none.")
    assert job.told == []
    job.nodes.add("worker", "n3", "none on n3.")
    assert job.told == [refused("none on n3. The same error occurred on n1, n2.")]
