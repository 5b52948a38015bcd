"""The tasks' output as files: which there are, and whose.

A task's stream has one file per session and try; when it is full it is renamed to end in `.1` and a new one begun.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import UserError
from tony.model.ids import TaskId

OUT = "out"
ERR = "err"
STREAMS = (OUT, ERR)
#: Tasks that a message names.
_SHOWN = 10
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

    def rotated(self, folder: Path) -> Path:
        """Where the older half lies once the file was full; nothing lies there before."""
        return folder / f"{self.file}.1"

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


def named_tasks(job: str, tasks: Sequence[TaskId], words: Iterable[str]) -> frozenset[str] | None:
    """Those of a job's tasks that are named, by themselves (`worker:0`) or by their role; None, for all, by no word.

    Raises:
        UserError: the job has no such task.
    """
    chosen: set[str] = set()
    for word in words:
        matching = {str(task) for task in tasks if word in (str(task), task.role)}
        if not matching:
            some = ", ".join(map(str, tasks[:_SHOWN])) + (", ..." if len(tasks) > _SHOWN else "")
            raise UserError(f"job {job} has no task {word!r}; it has {some}")
        chosen |= matching
    return frozenset(chosen) or None


def find(folder: Path, selection: Selection) -> list[LogName]:
    """The files in `folder` that are wanted, in order."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    wanted = [name for name in names if name is not None and selection.takes(name)]
    return sorted(wanted, key=lambda name: name.order)
