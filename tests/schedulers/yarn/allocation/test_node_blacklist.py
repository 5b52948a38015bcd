"""Hosts are left out as long as enough others are there; one without a Python costs one try."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tony.core.events import Event, Unsatisfiable
from tony.schedulers.yarn.allocation.node_blacklist import NodeBlacklist, NodesWithoutPython


class Yarn:
    """What YARN was told, and how many nodes it has."""

    def __init__(self, nodes: int, room: int | None = None, unfit: tuple[str, ...] = ()) -> None:
        self.out: set[str] = set()
        self.nodes = nodes
        self.told: list[tuple[str, ...]] = []
        self.exclusions = NodeBlacklist(
            lambda: self.nodes,
            {} if room is None else {"worker": room},
            unfit=lambda: unfit,
            leave_out=self.out.add,
            take_back=self.out.discard,
            changed=self.told.append,
        )


@pytest.mark.parametrize(("nodes", "most"), [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (30, 10)])
def test_never_more_than_a_third(nodes: int, most: int) -> None:
    """So a small cluster never excludes itself."""
    yarn = Yarn(nodes)
    for number in range(nodes):
        yarn.exclusions.exclude(f"n{number}")
    assert len(yarn.out) == most
    assert yarn.exclusions.hosts == tuple(f"n{number}" for number in range(most))


def test_never_the_last_that_fit() -> None:
    """Of a hundred nodes two have the GPUs."""
    yarn = Yarn(100, room=2)
    yarn.exclusions.exclude("a")
    yarn.exclusions.exclude("b")
    assert yarn.out == {"a"}


def test_taken_back_makes_room_for_another() -> None:
    yarn = Yarn(3)
    for host in ("a", "a", "b"):
        yarn.exclusions.exclude(host)
    assert yarn.out == {"a"}
    yarn.exclusions.include("a")
    assert yarn.out == {"b"}
    yarn.exclusions.include("a")
    yarn.exclusions.include("b")
    assert yarn.out == set()
    assert yarn.told == [("a",), ("b",), ()]


def test_they_give_way_where_nothing_else_is() -> None:
    """All of them, and none is added in place of one that was dropped; until another host is excluded."""
    yarn = Yarn(3)
    for host in ("a", "b"):
        yarn.exclusions.exclude(host)
    yarn.exclusions.clear()
    assert yarn.out == set()
    yarn.nodes = 6
    yarn.exclusions.refresh()
    yarn.exclusions.include("a")
    assert yarn.out == set()
    yarn.exclusions.exclude("a")
    assert yarn.out == {"a"}


def test_nodes_come_and_go() -> None:
    """What may be left out follows their number."""
    yarn = Yarn(6)
    yarn.exclusions.exclude("a")
    yarn.exclusions.exclude("b")
    for nodes, out in ((6, {"a", "b"}), (3, {"a"}), (2, set[str]()), (6, {"a", "b"})):
        yarn.nodes = nodes
        yarn.exclusions.refresh()
        assert yarn.out == out


def test_hosts_where_nothing_can_run_count() -> None:
    """They stay out, whatever a policy says."""
    yarn = Yarn(6, unfit=("a",))
    for host in ("a", "b", "c"):
        yarn.exclusions.exclude(host)
    assert yarn.out == {"b"}
    yarn.exclusions.include("a")
    assert yarn.out == {"b"}


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
