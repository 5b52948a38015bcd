"""Identifiers of jobs and tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: A role's name: it becomes part of file names, host specs and variables. 63 is a DNS label's limit.
ROLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)
#: A job's id: assigned by the scheduler, used as a folder name.
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)


class TaskId(NamedTuple):
    """One member of a role, written `worker:0`; stable for the job's life, never a rank."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which is never called on a task

    def __str__(self) -> str:
        return f"{self.role}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Parse `worker:0`.

        Raises:
            ValueError: the text is not `<role>:<index>`.
        """
        role, colon, index = text.rpartition(":")
        if not colon or not ROLE_NAME.fullmatch(role) or not (index.isascii() and index.isdigit()) or len(index) > 9:
            raise ValueError(f"{text!r:.80} is not a task; write role:index, such as worker:0")
        return cls(role, int(index))


def parse_role(task: str) -> str:
    """Return the role of a task: `worker` of `worker:0`."""
    return task.rpartition(":")[0]


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
