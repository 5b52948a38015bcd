"""Formats many tasks as ranges: `chief:0, worker:0-6, worker:8`."""

from __future__ import annotations

from collections.abc import Iterable

from tony.model.ids import TaskId


def format_task_ranges(tasks: Iterable[TaskId], limit: int | None = None) -> str:
    """Return the tasks as ranges, in the order in which their roles first occur.

    Args:
        limit: ranges to write out; the number of tasks in the rest is appended. None: all.
    """
    indices: dict[str, list[int]] = {}
    for task in tasks:
        indices.setdefault(task.role, []).append(task.index)
    ranges: list[tuple[str, int]] = []
    for role, numbers in indices.items():
        start = previous = numbers[0]
        for number in [*numbers[1:], -1]:
            if number != previous + 1:
                text = f"{role}:{start}" if start == previous else f"{role}:{start}-{previous}"
                ranges.append((text, previous - start + 1))
                start = number
            previous = number
    shown = ranges if limit is None else ranges[:limit]
    more = sum(count for _, count in ranges[len(shown) :])
    return ", ".join(text for text, _ in shown) + (f" and {more} more" if more else "")
