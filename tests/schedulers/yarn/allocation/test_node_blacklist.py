"""Hosts are left out as long as enough others are there."""

from __future__ import annotations

import pytest

from tony.schedulers.yarn.allocation.node_blacklist import NodeBlacklist


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
