"""Where jobs keep what TensorBoard shows, and how it comes into one folder. Blocks.

Only event files are taken. Whatever else lies beside them could name any file of this machine, and TensorBoard would
read it for whoever wrote that. What the settings of another user's job name outside of its record is never opened on
this machine; in another file system it is taken only if its owner is the owner of the record: else a record could show
what its writer may not read, and the portal may.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tony.config import remote_paths
from tony.dataclass import dataclass
from tony.errors import StorageError, TonyError
from tony.model.ids import TaskId
from tony.model.job_record import JobRecord
from tony.model.layout import JobFolder
from tony.model.placeholders import fill
from tony.storage.local_store import JobDirectory, name_of_user
from tony.storage.store import FileStore, Item, joined

#: A program finds in this variable where its summaries belong: the original's name.
VARIABLE = "TB_LOG_DIR"
#: Names that are looked through for one job, files that are taken, bytes that are copied for one TensorBoard.
_MOST_NAMES, _MOST_FILES, _MOST_BYTES = 20_000, 1_000, 2 << 30
#: Folders below one another.
_DEEPEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoardSource:
    """Where a job's record lies.

    Attributes:
        folder: on this machine: itself, or what was brought of it.
        store, path: where it was brought from; None and empty for one of the state directory of the portal's user.
        own: it is of that state directory, and so of the portal's user.
    """

    folder: JobFolder
    store: FileStore | None = None
    path: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFile:
    """One file for TensorBoard.

    Attributes:
        run: what TensorBoard calls it: its folder, below the job's.
        path: in `store`; None: of this machine and of a job of the portal's user, so that a link will do.
    """

    run: str
    name: str
    path: str
    size: int
    store: FileStore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFileSet:
    """What was found of a job.

    Attributes:
        files: event files, by path.
        problems: what was not taken, and why; for people.
        searched: where it was looked.
    """

    files: tuple[EventFile, ...]
    problems: tuple[str, ...]
    searched: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


def find(
    record: TensorBoardSource, job: JobRecord, store_of: Callable[[str], FileStore], may_open: Callable[[str], bool]
) -> EventFileSet:
    """Looks through the job's working directories, and where its settings say that summaries are.

    Args:
        store_of: the file system of an address, to be kept open by its maker.
        may_open: whether an address that is named by a record of another user may be opened.
    """
    found: dict[str, EventFile] = {}
    problems: list[str] = []
    searched: list[str] = []
    for run, place in _places(record, job):
        if place in searched:
            continue
        searched.append(place)
        try:
            for file in _look(record, run, place, store_of, may_open):
                found.setdefault(file.path, file)
                if len(found) >= _MOST_FILES:
                    problems.append(f"only the first {_MOST_FILES:,} event files are shown.")
                    break
        except (TonyError, OSError, ValueError) as error:
            problems.append(f"{place}: {' '.join(str(error).split())}")
    return EventFileSet(
        files=tuple(found[path] for path in sorted(found)), problems=tuple(problems), searched=tuple(searched)
    )


def gather(summaries: Mapping[str, EventFileSet], folder: Path) -> None:
    """Brings them into a folder: those of this machine by link, others as copies. One job's runs stand by themselves.

    Raises:
        StorageError: they are too much, or cannot be had.
    """
    left = _MOST_BYTES
    for job, found in summaries.items():
        top = folder / job if len(summaries) > 1 else folder
        for number, file in enumerate(found.files):
            at = top.joinpath(*_safe(file.run))
            try:
                at.mkdir(parents=True, exist_ok=True, mode=0o700)
                # TensorBoard orders a run's files by name; two of the same name may come from two places.
                target = at / (file.name if not (at / file.name).exists() else f"{file.name}.{number}")
                if file.store is None:
                    target.symlink_to(file.path)
                else:
                    left = _copy(file.store, file.path, target, left)
            except OSError as error:
                raise StorageError(f"cannot bring {file.path}: {error.strerror}") from error


def _copy(store: FileStore, path: str, target: Path, left: int) -> int:
    with target.open("xb") as out:
        for piece in store.pieces(path):
            left -= len(piece)
            if left < 0:
                raise StorageError(f"the event files have more than {_MOST_BYTES >> 30} GiB: more is not copied here.")
            out.write(piece)
    return left


def _places(record: TensorBoardSource, job: JobRecord) -> Iterator[tuple[str, str]]:
    """Run and place: a path, an address, or what begins with `work/` in the record itself."""
    spec = job.spec
    yield "", "work"
    for name, role in spec.effective_roles.items():
        for index in range(min(role.instances, _MOST_FILES)):
            task = TaskId(name, index)
            values = {
                "role": name,
                "index": str(index),
                "num_tasks": str(role.instances),
                "job_id": job.job_id,
                "session": "1",
                "attempt": "1",
                **{f"params.{key}": value for key, value in spec.params.items()},
            }
            for said in (role.progress_summaries, role.env.get(VARIABLE), spec.env.get(VARIABLE)):
                place = fill(said, values).strip() if said else ""
                if record.own and place.startswith("~/"):  # ours, so it is our home; programs expand it themselves
                    place = os.path.expanduser(place)
                if remote_paths.is_address(place) or place.startswith("/"):
                    run = str(task) if "{index}" in (said or "") else ""
                    yield run, place
    # What is relative lies below the tasks' working directories, which are looked through as a whole.


def _look(
    record: TensorBoardSource,
    run: str,
    place: str,
    store_of: Callable[[str], FileStore],
    may_open: Callable[[str], bool],
) -> Iterator[EventFile]:
    budget = [_MOST_NAMES]
    if place == "work":
        if record.store is not None:
            yield from _in_store(record.store, joined(record.path, "work"), run, budget, None)
        elif not record.folder.work.is_symlink():
            yield from _list_event_files(record.folder.work, run, budget)
    elif remote_paths.is_address(place):
        owner = None
        if not record.own:  # all of this before anything of that file system is made
            if not may_open(place):
                raise ValueError("it is in none of the file systems that this portal was started with: not opened.")
            owner = find_owner(record.store, record.path)
        yield from _in_store(store_of(place), "", run, budget, owner)
    elif record.own:
        yield from _list_event_files(Path(place), run, budget)
    else:
        raise ValueError(
            "it lies outside of the job's record. Only jobs in the portal's own state directory can name such a folder."
        )


def find_owner(store: FileStore | None, path: str) -> str:
    """Return the owner of a record, as its file system says.

    Of a job directory that is held open it is the owner of that directory: a file in it can be replaced.

    Raises:
        StorageError: it is not known.
    """
    if isinstance(store, JobDirectory):
        return name_of_user(store.owner)
    found = store.find(joined(path, "job.json")) if store else None
    if found is None or not found.owner:
        raise StorageError("the owner of the job's record is not known, so what lies outside of it is not shown.")
    return found.owner


def _list_event_files(top: Path, run: str, budget: list[int]) -> Iterator[EventFile]:
    """Event files of a folder here, of a job of the portal's user. Links are not followed."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        below = os.path.relpath(folder, top)
        if below.count(os.sep) > _DEEPEST:
            folders.clear()
        budget[0] -= len(names) + len(folders)
        if budget[0] < 0:
            raise ValueError(f"there are more than {_MOST_NAMES:,} files; the others were not looked at.")
        for name in sorted(names):
            if "tfevents" not in name:
                continue
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                at = joined(run, "" if below == "." else below)
                yield EventFile(run=at, name=name, path=path, size=status.st_size)


def _in_store(store: FileStore, top: str, run: str, budget: list[int], owner: str | None) -> Iterator[EventFile]:
    waiting = [(top, run, 0)]
    while waiting:
        path, at, depth = waiting.pop()
        items: list[Item] = sorted(store.list(path), key=lambda item: item.name)
        budget[0] -= len(items)
        if budget[0] < 0:
            raise ValueError(f"there are more than {_MOST_NAMES:,} files; the others were not looked at.")
        for item in items:
            if item.folder and depth < _DEEPEST:
                waiting.append((joined(path, item.name), joined(at, item.name), depth + 1))
            elif not item.folder and "tfevents" in item.name and owner in (None, item.owner):
                yield EventFile(run=at, name=item.name, path=joined(path, item.name), size=item.size, store=store)


def _safe(run: str) -> list[str]:
    """The folders of a run, none of which leads anywhere else."""
    return [part.replace("\0", "_") for part in run.split("/") if part not in ("", ".", "..")]
