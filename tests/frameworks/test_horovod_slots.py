"""Slots by host are those that Horovod itself would assign."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tony.frameworks.horovod import HorovodSlot, count_slots, slots_of

TASKS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 4)), min_size=1, max_size=12)


def all_slots(tasks: Sequence[tuple[str, int]]) -> list[HorovodSlot]:
    """Those of all processes, task by task."""
    return [slot for which in range(len(tasks)) for slot in slots_of(tasks, which)]


def test_several_tasks_on_one_host() -> None:
    """Ranks go host by host, whatever the order of the tasks; the first task keeps rank 0."""
    tasks = [("b", 1), ("a", 2), ("b", 1), ("a", 1)]
    assert count_slots(tasks) == {"b": 2, "a": 3}
    assert [(slot.host, slot.rank, slot.local_rank, slot.local_size) for slot in all_slots(tasks)] == [
        ("b", 0, 0, 2),
        ("a", 2, 0, 3),
        ("a", 3, 1, 3),
        ("b", 1, 1, 2),
        ("a", 4, 2, 3),
    ]
    assert [(slot.cross_rank, slot.cross_size) for slot in all_slots(tasks)] == [(0, 2), (1, 2), (1, 2), (0, 2), (0, 1)]


@given(TASKS)
def test_as_horovod_lays_them_out(tasks: list[tuple[str, int]]) -> None:
    """Horovod goes through the hosts and gives each its slots; a cross rank counts the hosts that have such a slot."""
    expected: list[tuple[int, str, int, int, int]] = []
    on_level: dict[int, list[str]] = {}
    for host, count in count_slots(tasks).items():
        for local in range(count):
            on_level.setdefault(local, []).append(host)
            expected.append((len(expected), host, local, count, on_level[local].index(host)))
    found = sorted((s.rank, s.host, s.local_rank, s.local_size, s.cross_rank) for s in all_slots(tasks))
    assert found == expected
    assert all(s.size == len(expected) and s.cross_size == len(on_level[s.local_rank]) for s in all_slots(tasks))
