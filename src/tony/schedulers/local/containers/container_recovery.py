"""Containers for a later AM attempt: the record of launches, and the reattachment of those whose executors still run.

The rest of what earlier AM attempts left is killed by `cleanup`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from tony.linux import process
from tony.model.codec import from_plain, to_plain
from tony.model.ids import TaskId
from tony.model.strict_json import loads
from tony.schedulers.local.containers.local_container import ContainerStage, LocalContainer, adopt_executor

if TYPE_CHECKING:
    from tony.schedulers.allocator_interface import KnownContainer
    from tony.schedulers.client_interface import PreparedJob
    from tony.schedulers.local.containers.fork_server import ForkServer

#: Marks a line that was cut short, so that it is not read together with the next one.
_TORN_LINE_MARK = "\0"
#: Container ids in an event log.
_NUMBER = re.compile(rb'"c-(\d{1,9})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A container in which an executor was started.

    Attributes:
        pid, start: the executor, and its start time (clock ticks since boot), which tells it from a later process with
            the same pid.
        devices: the container's own GPUs.
        groups: folders of its control group.
    """

    container: str
    role: str
    pid: int
    start: int
    devices: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """The launches recorded for a later AM attempt; some of the processes may have ended.

    Attributes:
        groups: folders of control groups, including those of containers that were never launched.
        executors: pid -> start time (clock ticks since boot).
    """

    launched: tuple[Launched, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def executors(self) -> Mapping[int, int]:
        return {held.pid: held.start for held in self.launched}


def record_launch(file: Path, *, launched: Launched | None = None, groups: Sequence[str] = ()) -> None:
    """Record what a later AM attempt must kill or take over if this one dies.

    Raises:
        OSError: the file system refuses.
    """
    lines = [f"group {group}\n" for group in groups]
    if launched:
        lines.append(f"launched {json.dumps(to_plain(launched), separators=(',', ':'))}\n")
    if not lines:
        return
    with file.open("a+b") as out:
        size = out.seek(0, os.SEEK_END)
        if size and (out.seek(size - 1), out.read(1))[1] != b"\n":  # cut short by a full disk, or with its writer
            lines.insert(0, f"{_TORN_LINE_MARK}\n")
        out.write("".join(lines).encode())


def read_launch_record(file: Path) -> LaunchRecord:
    """Read the recorded launches; empty if there is no such file. Skips lines that were cut short."""
    launched, groups = [], []
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        lines = []
    for line in lines:
        kind, _, rest = line.removesuffix("\n").partition(" ")
        if not line.endswith("\n") or _TORN_LINE_MARK in line:
            continue
        if kind == "group":
            groups.append(rest)
        elif kind == "launched":
            with contextlib.suppress(ValueError):
                launched.append(from_plain(Launched, loads(rest), ignore_unknown=True))
    return LaunchRecord(launched=tuple(launched), groups=tuple(groups))


def find_highest_container_number(logs: Iterable[Path]) -> int:
    """Return the highest container number in any of the event logs; 0 for none."""
    found = 0
    for log in logs:
        with contextlib.suppress(OSError), log.open("rb") as file:
            for line in file:
                found = max([found, *(int(number) for number in _NUMBER.findall(line))])
    return found


class LocalContainerRecovery:
    """Reattaches containers.

    Args:
        server: reaps executors that it started; it did not start these.
        ended: called once for each container, on the running loop, with how its executor ended.
    """

    def __init__(self, job: PreparedJob, server: ForkServer, ended: Callable[[LocalContainer, str], object]) -> None:
        self._job = job
        self._server = server
        self._on_ended = ended

    @property
    def has_predecessors(self) -> bool:
        """True if there were earlier AM attempts: this one has its event log before the allocator is opened."""
        return self._job.folder.events(2).exists()

    def find_highest_number(self) -> int:
        """Return the highest number of a container granted to them. Blocks: it reads their logs."""
        return find_highest_container_number(takewhile(Path.exists, map(self._job.folder.events, count(1))))

    def reattach(
        self, known: Iterable[KnownContainer], noted: LaunchRecord, supervisor: int
    ) -> Iterator[LocalContainer]:
        """Yield the containers whose executor is running.

        Args:
            supervisor: process that has become the executors' parent; 0 if it is not known.
        """
        launched = {held.container: held for held in noted.launched}
        for container in known:
            if container.task:
                held = self._reattach(
                    container,
                    container.task,
                    launched.get(container.id) or self._find_unrecorded(container, supervisor),
                )
                if held:
                    yield held

    def _reattach(self, known: KnownContainer, task: TaskId, launched: Launched | None) -> LocalContainer | None:
        if launched is None:
            return None
        resources = self._job.record.spec.effective_roles[known.role].resources
        resources = resources if known.memory is None else replace(resources, memory=known.memory)
        held = LocalContainer(id=known.id, role=known.role, resources=resources, devices=launched.devices, adopted=True)
        held.groups, held.stage = launched.groups, ContainerStage.RUNNING
        held.executor = adopt_executor(
            launched.pid,
            launched.start,
            self._server,
            self._job.folder.executor_log(task),
            lambda how: self._on_ended(held, how),
        )
        return held if held.executor else None

    def _find_unrecorded(self, known: KnownContainer, supervisor: int) -> Launched | None:
        """Return an executor known from the event log alone (the disk was full), if it certainly holds no GPU."""
        pid = known.executor_pid
        if pid is None or not supervisor or self._job.record.spec.effective_roles[known.role].resources.gpus:
            return None
        start = process.start_time(pid)
        if start is None or process.parent_of(pid) != supervisor:
            return None
        return Launched(container=known.id, role=known.role, pid=pid, start=start)
