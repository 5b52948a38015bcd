"""Ids of tasks, and ranges of them."""

from __future__ import annotations

from tony.model.ids import TaskId, format_task_ranges


def test_ranges() -> None:
    names = ["worker:0", "worker:1", "worker:2", "worker:5", "ps:3", "ps:5", "ps:6"]
    assert format_task_ranges(map(TaskId.parse, names)) == "worker:0-2, worker:5, ps:3, ps:5-6"
    assert format_task_ranges([]) == ""
