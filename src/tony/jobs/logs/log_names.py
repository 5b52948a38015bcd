"""The names of log files, and their selection by task, stream and session.

Each stream of a task has one file per session and task attempt; a full file is renamed to end in `.1` and a new one
started.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.config.name_suggestions import suggest_names
from tony.errors import UserError
from tony.model.ids import TaskId

OUT = "out"
ERR = "err"
STREAMS = (OUT, ERR)
#: Tasks named in an error message.
_MAX_SHOWN = 10
_NAME = re.compile(
    r"(?P<role>[A-Za-z][A-Za-z0-9_-]*)-(?P<index>\d{1,9})\.s(?P<session>\d{1,9})\.t(?P<try>\d{1,9})\.(?P<stream>out|err)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LogName:
    """The parts of a log file's name."""

    role: str
    index: int
    session: int
    try_: int
    stream: str

    @property
    def task(self) -> str:
        """The task, such as `worker:0`."""
        return str(TaskId(self.role, self.index))

    @property
    def file(self) -> str:
        """The file name."""
        return f"{self.role}-{self.index}.s{self.session}.t{self.try_}.{self.stream}"

    def build_rotated_path(self, folder: Path) -> Path:
        """Return the path of the older part after a rotation."""
        return folder / f"{self.file}.1"

    @property
    def order(self) -> tuple[str, int, int, int, int]:
        """Sort key: role, index, session, task attempt; stdout before stderr."""
        return self.role, self.index, self.session, self.try_, STREAMS.index(self.stream)

    @classmethod
    def parse(cls, file: str) -> LogName | None:
        """Parse a file name, rotated or not; return None if it is not a task's log."""
        match = _NAME.fullmatch(file.removesuffix(".1"))
        if match is None:
            return None
        return cls(match["role"], int(match["index"]), int(match["session"]), int(match["try"]), match["stream"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects log files.

    Attributes:
        tasks: such as `worker:0`; None for all.
        streams: `out`, `err`.
        session: only this session; None for all.
    """

    tasks: Collection[str] | None = None
    streams: Collection[str] = STREAMS
    session: int | None = None

    def matches(self, name: LogName) -> bool:
        """Return True if a file is selected."""
        return (
            (self.tasks is None or name.task in self.tasks)
            and name.stream in self.streams
            and self.session in (None, name.session)
        )


def select_named_tasks(job: str, tasks: Sequence[TaskId], words: Iterable[str]) -> frozenset[str] | None:
    """Return the tasks named by `words`, by task (`worker:0`) or role; None, meaning all, without words.

    Raises:
        UserError: the job has no such task.
    """
    chosen: set[str] = set()
    for word in words:
        matching = {str(task) for task in tasks if word in (str(task), task.role)}
        if not matching:
            shown = ", ".join(map(str, tasks[:_MAX_SHOWN])) + (", ..." if len(tasks) > _MAX_SHOWN else "")
            roles = {task.role for task in tasks}
            names = () if word.partition(":")[0] in roles else [*roles, *map(str, tasks)]
            raise UserError(f"job {job} has no task {word!r}; {suggest_names(word, names, f'it has {shown}')}")
        chosen |= matching
    return frozenset(chosen) or None


def find(folder: Path, selection: Selection) -> list[LogName]:
    """Return the selected log files in `folder`, sorted."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    matching = [name for name in names if name is not None and selection.matches(name)]
    return sorted(matching, key=lambda name: name.order)
