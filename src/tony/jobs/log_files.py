"""Log files of tasks, selected by task, stream and session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tony.errors import UserError
from tony.model.ids import TaskId
from tony.model.log_name import STREAMS, LogName
from tony.name_suggestions import suggest_names

#: Tasks named in an error message.
_MAX_SHOWN = 10
#: Tasks on other machines whose recent output a page waits for.
MAX_FOLLOWED_TASKS = 64


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
        is_newest_only: of each task only the newest session that has a log: a task that has finished for good has none
            of later ones.
        has_times: read the time of each line, if it is known.
        since: only lines printed from then on, seconds since 1970, and those whose time is unknown; None for all.
    """

    tasks: Collection[str] | None = None
    streams: Collection[str] = STREAMS
    session: int | None = None
    is_newest_only: bool = False
    has_times: bool = False
    since: float | None = None

    def matches(self, name: LogName) -> bool:
        """Return True if a file is selected."""
        return (
            (self.tasks is None or name.task in self.tasks)
            and name.stream in self.streams
            and self.session in (None, name.session)
        )

    def select(self, names: Iterable[LogName]) -> list[LogName]:
        """Return the selected ones of a job's log files, sorted."""
        matching = [name for name in names if self.matches(name)]
        if self.is_newest_only:
            newest = find_newest_sessions(matching)
            matching = [name for name in matching if name.session == newest[name.task]]
        return sorted(matching, key=lambda name: name.order)


def find_newest_sessions(names: Iterable[LogName]) -> dict[str, int]:
    """Return the newest session of each task that has a log of one."""
    newest: dict[str, int] = {}
    for name in names:
        newest[name.task] = max(name.session, newest.get(name.task, 0))
    return newest


def select_named_tasks(job: str, tasks: Sequence[TaskId], words: Iterable[TaskId | str]) -> frozenset[str] | None:
    """Return the tasks named by `words`, by task (`worker:0`) or role; None, meaning all, without words.

    Raises:
        UserError: the job has no such task.
    """
    chosen: set[str] = set()
    for word in map(str, words):
        matching = {str(task) for task in tasks if word in (str(task), task.role)}
        if not matching:
            shown = ", ".join(map(str, tasks[:_MAX_SHOWN])) + (", ..." if len(tasks) > _MAX_SHOWN else "")
            roles = {task.role for task in tasks}
            names = () if word.partition(":")[0] in roles else [*roles, *map(str, tasks)]
            raise UserError(f"job {job} has no task {word!r}; {suggest_names(word, names, f'it has {shown}')}")
        chosen |= matching
    return frozenset(chosen) or None


def select_followed(tasks: Sequence[TaskId], name: str) -> frozenset[str]:
    """Return the tasks of a name, a task or a role, all if it is empty, whose output is followed: not too many."""
    return frozenset(islice((str(task) for task in tasks if name in ("", str(task), task.role)), MAX_FOLLOWED_TASKS))


def select_one_task(job: str, tasks: Sequence[TaskId], word: TaskId | str) -> TaskId:
    """Return the task named by `word`: `worker:0`, or a role that has one task.

    Raises:
        UserError: the job has no such task, or the role has several.
    """
    found = select_named_tasks(job, tasks, (word,)) or frozenset()
    if len(found) > 1:
        raise UserError(f"role {word} has {len(found)} tasks; name one of them: {word}:0")
    return TaskId.parse(next(iter(found)))


def find_log_files(folder: Path, selection: Selection) -> list[LogName]:
    """Return the selected log files in `folder`, sorted."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    return selection.select(name for name in names if name is not None)
