"""Tests of `tony.config.checks.start_order`: rings of roles that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.config.checks.start_order import describe_cycle, find_cycles


@pytest.mark.parametrize(
    ("expected", "waits_for"),
    [
        ([], {}),
        ([], {"a": [], "b": ["a"], "c": ["a", "b"]}),
        ([], {"a": ["gone"]}),
        ([("a",)], {"a": ["a"]}),
        ([("a", "b")], {"a": ["b"], "b": ["a"]}),
        ([("a", "c", "b")], {"a": ["c"], "b": ["a"], "c": ["b"]}),
        ([("a", "c")], {"b": ["c"], "a": ["c"], "c": ["a"]}),
        ([("a", "b"), ("c", "d")], {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}),
    ],
)
def test_rings_are_named(expected: list[tuple[str, ...]], waits_for: Mapping[str, list[str]]) -> None:
    """Each once, beginning with its first role in the job's order."""
    assert expected == find_cycles(waits_for)


def test_a_dense_cycle_is_reported_briefly() -> None:
    """If all roles wait for each other, each role is named once."""
    names = [f"r{n}" for n in range(300)]
    rings = find_cycles({name: [other for other in names if other != name] for name in names})
    told = [name for ring in rings for name in ring]
    assert rings
    assert len(told) == len(set(told))


def test_a_long_cycle_is_reported_by_its_ends() -> None:
    assert "a -> b -> a" == describe_cycle(("a", "b"))
    shown = describe_cycle(tuple(f"r{n}" for n in range(2000)))
    assert "r0 -> r1 -> r2 -> r3 -> r4 -> (1990 more) -> r1995 -> r1996 -> r1997 -> r1998 -> r1999 -> r0" == shown


def test_a_long_chain_is_no_ring_and_no_deep_recursion() -> None:
    """A hundred thousand roles in a row."""
    count = 100_000
    assert [] == find_cycles({f"r{n}": [f"r{n + 1}"] for n in range(count)})


@given(st.dictionaries(st.integers(0, 5).map(str), st.lists(st.integers(0, 5).map(str), max_size=3)))
def test_rings_are_found_exactly_when_no_order_exists(waits_for: dict[str, list[str]]) -> None:
    """Compared with the simple algorithm: remove the roles that wait for no other, until nothing changes."""
    left = {name: {other for other in others if other in waits_for} for name, others in waits_for.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    rings = find_cycles(waits_for)
    assert bool(left) == bool(rings)
    for ring in rings:
        for name, other in zip(ring, (*ring[1:], ring[0]), strict=True):
            assert other in waits_for[name]
