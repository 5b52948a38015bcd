"""The stack traces that are saved among the logs of a job, of its tasks when they were last requested."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tony.errors import InfraError, TonyError, join_lines
from tony.jobs.remote.scheduler_logs import fetch_files
from tony.model.ids import TaskId
from tony.model.log_file_tail import LogFileTail
from tony.model.log_name import STACKS
from tony.model.state_directory import JobFolder
from tony.protocol.shared_messages import MAX_STACKS_BYTES, Stacks
from tony.schedulers.client_interface import Submitter

#: The line above each dump in a file, as `StackDumper.keep` writes it.
_HEAD = re.compile(r"^##### (?P<at>\S+) (?P<how>.*)\n", re.MULTILINE)
_NAME = re.compile(rf"(?P<role>.+)-(?P<index>\d+)\.s(?P<session>\d+)\.t(?P<try_>\d+)\.{STACKS}", re.ASCII)
#: Bytes of a file that are read: its last dump, and the line above.
_MAX_BYTES = MAX_STACKS_BYTES + 1024


class _SavedFile(NamedTuple):
    task: TaskId
    session: int
    try_: int
    name: str


def read_saved_stacks(logs: Path, chosen: frozenset[str] | None) -> list[Stacks]:
    """Return the last saved stack traces of tasks, of the last session that has any; nothing if none are saved here.

    Args:
        chosen: tasks such as `worker:0`; None for all.
    """
    try:
        names = [path.name for path in logs.iterdir()]
    except OSError:
        return []
    return [_read_last(logs, each) for each in _select(names, chosen)]


async def fetch_saved_stacks(submitter: Submitter, folder: JobFolder, chosen: frozenset[str] | None) -> list[Stacks]:
    """Return what `read_saved_stacks` does, of a job whose logs are where its scheduler keeps them.

    Raises:
        InfraError: the scheduler gives none, for a reason of its own.
    """
    sink = _StacksSink()
    try:
        await fetch_files(submitter, folder, sink)
    except (TonyError, OSError) as error:
        if not sink.tails:
            raise InfraError(f"the saved stack traces are not available: {join_lines(error)}") from error
    return [_parse_last(each, sink.tails[each.name]) for each in _select(sink.tails, chosen)]


class _StacksSink:
    """Takes the ends of the files with stack traces; see `LogSink`."""

    def __init__(self) -> None:
        self.tails: dict[str, bytes] = {}

    def find_start(self, name: str, older: int, newer: int) -> int | None:
        if _parse_name(name) is None or older:
            return None
        self.tails[name] = b""
        return max(0, newer - _MAX_BYTES)

    def put(self, name: str, start: int, offset: int, data: bytes) -> None:
        self.tails[name] = (self.tails[name] + data)[-_MAX_BYTES:]

    def put_tail(self, tail: LogFileTail) -> None:
        if _parse_name(tail.name):
            self.tails[tail.name] = tail.data[-_MAX_BYTES:]

    def put_index(self, file: str, data: bytes) -> None:
        """Nothing: these files have none."""


def _select(names: Iterable[str], chosen: frozenset[str] | None) -> list[_SavedFile]:
    """Return the newest file of each chosen task, of the last session that has any."""
    files = [found for name in names if (found := _parse_name(name))]
    session = max((each.session for each in files), default=0)
    newest = {each.task: each for each in sorted(files) if each.session == session}
    return [each for each in newest.values() if chosen is None or str(each.task) in chosen]


def _parse_name(name: str) -> _SavedFile | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return _SavedFile(TaskId(match["role"], int(match["index"])), int(match["session"]), int(match["try_"]), name)


def _read_last(logs: Path, saved: _SavedFile) -> Stacks:
    try:
        with open(logs / saved.name, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_BYTES))
            data = file.read(_MAX_BYTES)
    except OSError as error:
        return Stacks(task=str(saved.task), problem=str(error), name=saved.name)
    return _parse_last(saved, data)


def _parse_last(saved: _SavedFile, data: bytes) -> Stacks:
    task, parts = str(saved.task), _HEAD.split(data.decode(errors="replace"))
    if len(parts) == 1:
        return Stacks(task=task, problem="the file has no complete stack traces", name=saved.name)
    at, how, text = parts[-3:]
    if how == "nothing":
        return Stacks(task=task, problem=f"{text.strip()} (at {at})", name=saved.name)
    return Stacks(task=task, text=f"##### {at}\n{text.strip()}", how=how, name=saved.name)
