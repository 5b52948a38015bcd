"""The command file of faulty executors, which inject the faults of their own connections.

The fault injector appends lines; every executor of the job reads the whole file, later replacements too:

    {"task": "worker:0", "number": 3, "planned": "partition executor worker:0", "over": false, "seed": 0, ...}
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.plan import PlannedFault
from tests.support.faults.plan_parser import format_fault, parse_fault
from tests.support.faults.schedule import Injection
from tony.linux.inotify import ChangeWatch
from tony.model.ids import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One command.

    Attributes:
        number: index of the fault in its plan; the command that undoes it has the same.
        seed: of the random choices.
        incarnation: of the target executor; empty for every executor of the task, replacements included.
    """

    task: TaskId
    number: int
    planned: PlannedFault
    over: bool
    seed: int = 0
    incarnation: str = ""


def give(file: Path, injection: Injection, seed: int, incarnation: str = "") -> None:
    """Append a command in one write, so that no reader sees half of it."""
    line = {
        "task": str(injection.target.task),
        "number": injection.number,
        "planned": format_fault(injection.planned),
        "over": injection.over,
        "seed": seed,
        "incarnation": incarnation,
    }
    with file.open("ab", buffering=0) as out:
        out.write(json.dumps(line).encode() + b"\n")


class OrderBook:
    """Reads a command file, each command once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0

    def new(self) -> Iterator[Order]:
        """Yield the commands since the last call."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            plain = json.loads(line)
            yield Order(
                task=TaskId.parse(plain["task"]),
                number=plain["number"],
                planned=parse_fault(plain["planned"]),
                over=plain["over"],
                seed=plain["seed"],
                incarnation=plain["incarnation"],
            )


async def follow(file: Path, tell: Callable[[Order], None]) -> None:
    """Call `tell` with every command, for ever."""
    book = OrderBook(file)
    with ChangeWatch() as watch:
        watch.add(Path(os.path.dirname(file)))
        while True:
            for order in book.new():
                tell(order)
            changed = await watch.wait_change()
            while changed is not None and file not in changed:
                changed = await watch.wait_change()


async def follow_quietly(file: Path, tell: Callable[[Order], None]) -> None:
    """Like `follow`; if the file cannot be read, inject nothing."""
    try:
        await follow(file, tell)
    except (OSError, asyncio.CancelledError):
        return
