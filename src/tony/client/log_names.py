"""The tasks' output as files: which there are, and whose.

A task's stream has one file per session and try; when it is full it is renamed to end in `.1` and a new one begun.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tony.model.ids import TaskId

OUT = "out"
ERR = "err"
STREAMS = (OUT, ERR)
_NAME = re.compile(
    r"(?P<role>[A-Za-z][A-Za-z0-9_-]*)-(?P<index>\d{1,9})\.s(?P<session>\d{1,9})\.t(?P<try>\d{1,9})\.(?P<stream>out|err)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LogName:
    """Which program's output a file holds."""

    role: str
    index: int
    session: int
    try_: int
    stream: str

    @property
    def task(self) -> str:
        """The task as people write it: `worker:0`."""
        return str(TaskId(self.role, self.index))

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.role}-{self.index}.s{self.session}.t{self.try_}.{self.stream}"

    @property
    def order(self) -> tuple[str, int, int, int, int]:
        """Sorts by role, index, session and try; a program's output comes before its errors."""
        return self.role, self.index, self.session, self.try_, STREAMS.index(self.stream)

    @classmethod
    def parse(cls, file: str) -> LogName | None:
        """Reads a file's name; None if it is no log of a task's program. That of a rotated file counts as its own."""
        match = _NAME.fullmatch(file.removesuffix(".1"))
        if match is None:
            return None
        return cls(match["role"], int(match["index"]), int(match["session"]), int(match["try"]), match["stream"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines are wanted.

    Attributes:
        tasks: such as `worker:0`; None for all.
        streams: `out`, `err`.
        session: only this session's; None for all.
    """

    tasks: Collection[str] | None = None
    streams: Collection[str] = STREAMS
    session: int | None = None

    def takes(self, name: LogName) -> bool:
        """Whether a file's lines are wanted."""
        return (
            (self.tasks is None or name.task in self.tasks)
            and name.stream in self.streams
            and self.session in (None, name.session)
        )


def find(folder: Path, selection: Selection) -> list[LogName]:
    """The files in `folder` that are wanted, in order."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    wanted = [name for name in names if name is not None and selection.takes(name)]
    return sorted(wanted, key=lambda name: name.order)
