"""Selection of log files by task, stream and session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.config.name_suggestions import suggest_names
from tony.errors import UserError
from tony.model.ids import TaskId
from tony.model.log_name import STREAMS, LogName

#: Tasks named in an error message.
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileInfo:
    """One output stream of one task attempt.

    Attributes:
        task: `worker:0`.
        stream: `out` or `err`.
        size: bytes available; rotated parts are not included.
    """

    name: str
    task: str
    session: int
    try_: int
    stream: str
    size: int


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
