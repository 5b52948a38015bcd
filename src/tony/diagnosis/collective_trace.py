"""Names the task that has not joined a collective operation, from PyTorch's flight recorder. Pure.

Reads the lines that the hook `tony_collective_trace` writes into the stack traces of a task. Operations are numbered
within their group, in the same order by all of its processes:

- One that waits in number N, while another process of the group has joined fewer, waits for that process.
- If the others have joined number N as well, but one with another operation, type or shape, they do not match.

A process that others wait for, but that itself waits for one in another group, is not the cause.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tony.model.ids import TaskId

#: Begins a line with the summary of one process, and its maximum length.
TRACE_PREFIX = "collective operations: "
MAX_TRACE_CHARACTERS = 32 << 10
#: Bounds of what is taken from a program: lines, groups, operations of a group; characters of a text.
_MAX_PROCESSES = 64
_MAX_GROUPS = 64
_MAX_CALLS = 32
_MAX_CHARACTERS = 100
#: Operations of a group that are compared between its processes.
_MAX_COMPARED = 4
#: Operations in which tensors may differ between processes.
_UNEVEN = ("scatter", "gather", "all_to_all", "alltoall", "send", "recv", "coalesced")


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective operation that a process has joined: its number in the group, name, type and shape of tensors."""

    number: int
    name: str
    shape: str
    is_done: bool

    def __str__(self) -> str:
        return f"{self.name} #{self.number:,}{self._tensors}"

    def describe(self) -> str:
        """Return the operation without its number."""
        return f"{self.name}{self._tensors}"

    @property
    def _tensors(self) -> str:
        return f" ({self.shape})" if self.shape else ""

    @property
    def signature(self) -> tuple[str, str]:
        """Return what must be the same for all processes of the group."""
        return self.name, "" if any(word in self.name for word in _UNEVEN) else self.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrace:
    """What a process has done in one of its groups.

    Attributes:
        id: the same in all processes of the group.
        label: for users.
        last: number of the last operation that it has joined, 0 before the first; None if not known.
        calls: some of them, in order.
    """

    id: str
    label: str
    last: int | None
    calls: Sequence[CollectiveCall]

    @property
    def waiting(self) -> CollectiveCall | None:
        """Return the operation in which the process waits."""
        return next((call for call in self.calls if not call.is_done), None)

    def find_call(self, number: int) -> CollectiveCall | None:
        """Return the operation with that number; None if it is not known."""
        return next((call for call in self.calls if call.number == number), None)


@dataclass(frozen=True, slots=True)
class ProcessTrace:
    """The groups of one process."""

    rank: int
    groups: Sequence[GroupTrace]


@dataclass(frozen=True, slots=True)
class LateTask:
    """The task that others wait for in a collective operation; None if either of two may be it."""

    task: TaskId | None
    sentence: str


@dataclass(frozen=True, slots=True)
class _Member:
    """A process as a member of a group; its name is that of its task, with the rank if it is one of several."""

    task: TaskId
    name: str
    group: GroupTrace


def parse_traces(text: str) -> Sequence[ProcessTrace]:
    """Return the traces in the stack traces of a task; lines that are not valid are ignored."""
    lines = [line for line in text.splitlines() if line.startswith(TRACE_PREFIX)][:_MAX_PROCESSES]
    return [trace for line in lines if (trace := _parse_line(line.removeprefix(TRACE_PREFIX))) is not None]


def _parse_line(line: str) -> ProcessTrace | None:
    try:
        plain: Any = json.loads(line[:MAX_TRACE_CHARACTERS])
        return ProcessTrace(_to_int(plain["rank"]), [_parse_group(each) for each in plain["groups"][:_MAX_GROUPS]])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parse_group(plain: Any) -> GroupTrace:
    label, last = str(plain["label"])[:_MAX_CHARACTERS], plain["last"]
    calls = [
        CollectiveCall(_to_int(number), str(name)[:_MAX_CHARACTERS], str(shape)[:_MAX_CHARACTERS], bool(is_done))
        for number, name, shape, is_done in plain["calls"][:_MAX_CALLS]
    ]
    return GroupTrace(
        id=str(plain["id"]),
        label="the default group" if label == "default_pg" else f"group {label}",
        last=None if last is None else _to_int(last),
        calls=calls,
    )


def _to_int(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("not a count")
    return value


def find_late_task(traces: Mapping[TaskId, Sequence[ProcessTrace]]) -> LateTask | None:
    """Return the task that others wait for in a collective operation; None if the traces show none."""
    groups = _group_members(traces)
    waiting = {member.name for members in groups for member in members if member.group.waiting}
    late = [(member, members) for members in groups for member in _find_late_members(members)]
    if not late:
        return next(filter(None, map(_find_mismatch, groups)), None)
    first, members = min(late, key=lambda each: (each[0].name in waiting, each[0].task, each[0].name))
    more = len({member.name for member, _ in late} - waiting - {first.name})
    return LateTask(first.task, _describe_late(first, members, more))


def _group_members(traces: Mapping[TaskId, Sequence[ProcessTrace]]) -> Sequence[Sequence[_Member]]:
    """Return the known members of each group."""
    groups: dict[str, list[_Member]] = defaultdict(list)
    for task, processes in sorted(traces.items()):
        for process in processes:
            name = f"{task} (rank {process.rank})" if len(processes) > 1 else str(task)
            for group in process.groups:
                groups[group.id].append(_Member(task, name, group))
    return list(groups.values())


def _find_late_members(members: Sequence[_Member]) -> Sequence[_Member]:
    """Return the members that have joined the fewest operations, if others wait in one that they have not joined."""
    known = [member for member in members if member.group.last is not None]
    fewest = min((member.group.last or 0 for member in known), default=0)
    if any(call.number > fewest for member in members if (call := member.group.waiting)):
        return [member for member in known if member.group.last == fewest]
    return []


def _describe_late(late: _Member, members: Sequence[_Member], more: int) -> str:
    number = (late.group.last or 0) + 1
    call = next((call for member in members if (call := member.group.find_call(number))), f"operation #{number:,}")
    last = late.group.find_call(number - 1)
    after = f" after {last.name} #{last.number:,}" if last else ""
    who = f"{late.name} and {more} more have" if more else f"{late.name} has"
    return f"{who} not joined {call} of {late.group.label}{after}"


def _find_mismatch(members: Sequence[_Member]) -> LateTask | None:
    """Return the member whose operation differs from that of most others, where some wait in it."""
    numbers = {call.number for member in members if (call := member.group.waiting)}
    for number in sorted(numbers)[:_MAX_COMPARED]:
        calls = [(member, call) for member in members if (call := member.group.find_call(number))]
        usual, count = Counter(call.signature for _, call in calls).most_common(1)[0]
        odd = next((each for each in calls if each[1].signature != usual), None)
        if odd is not None:
            other, other_call = next(each for each in calls if each[1].signature == usual)
            others = other.name if count == 1 else f"{count} others"
            return LateTask(
                odd[0].task if 2 * count > len(calls) else None,
                f"operation #{number:,} of {other.group.label} differs: {odd[1].describe()} of {odd[0].name}, "
                f"{other_call.describe()} of {others}",
            )
    return None
