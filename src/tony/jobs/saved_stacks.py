"""The stack traces that are saved among the logs of a job, of its tasks when they were last requested."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tony.model.ids import TaskId
from tony.model.log_name import STACKS
from tony.protocol.shared_messages import MAX_STACKS_BYTES, Stacks

#: The line above each dump in a file, as `StackDumper.keep` writes it.
_HEAD = re.compile(r"^##### (?P<at>\S+) (?P<how>.*)\n", re.MULTILINE)
_NAME = re.compile(rf"(?P<role>.+)-(?P<index>\d+)\.s(?P<session>\d+)\.t(?P<try_>\d+)\.{STACKS}", re.ASCII)
#: Bytes of a file that are read: its last dump, and the line above.
_MAX_BYTES = MAX_STACKS_BYTES + 1024


class _SavedFile(NamedTuple):
    task: TaskId
    session: int
    try_: int
    path: Path


def read_saved_stacks(logs: Path, chosen: frozenset[str] | None) -> list[Stacks]:
    """Return the last saved stack traces of tasks, of the last session that has any; nothing if none are saved here.

    Args:
        chosen: tasks such as `worker:0`; None for all.
    """
    try:
        files = [found for path in logs.iterdir() if (found := _parse_name(path))]
    except OSError:
        return []
    session = max((each.session for each in files), default=0)
    newest = {each.task: each for each in sorted(files) if each.session == session}
    return [_read_last(each) for each in newest.values() if chosen is None or str(each.task) in chosen]


def _parse_name(path: Path) -> _SavedFile | None:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    return _SavedFile(TaskId(match["role"], int(match["index"])), int(match["session"]), int(match["try_"]), path)


def _read_last(saved: _SavedFile) -> Stacks:
    task, name = str(saved.task), saved.path.name
    try:
        with open(saved.path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_BYTES))
            parts: Sequence[str] = _HEAD.split(file.read(_MAX_BYTES).decode(errors="replace"))
    except OSError as error:
        return Stacks(task=task, problem=str(error), name=name)
    if len(parts) == 1:
        return Stacks(task=task, problem="the file has no complete stack traces", name=name)
    at, how, text = parts[-3:]
    if how == "nothing":
        return Stacks(task=task, problem=f"{text.strip()} (at {at})", name=name)
    return Stacks(task=task, text=f"##### {at}\n{text.strip()}", how=how, name=name)
