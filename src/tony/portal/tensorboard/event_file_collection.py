"""Finds the event files of jobs for TensorBoard, and collects them in one folder. Blocks.

Only event files are taken: other files could refer to any file of this machine, which TensorBoard would then read.
Paths outside the job directory in another user's settings are never opened on this machine; in another file system a
file is taken only if its owner is the owner of the job directory. Otherwise a job could show files that the portal may
read and the job's owner may not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError, TonyError, join_lines
from tony.model.hdfs_uri import is_address
from tony.model.ids import TaskId
from tony.model.placeholders import fill
from tony.model.submission_record import JobRecord
from tony.portal.histories.job_dir_location import JobDirLocation, find_owner
from tony.storage.stores.store_interface import FileStore, Item, join_path

#: Environment variable with the folder for summaries; LinkedIn TonY's name.
VARIABLE = "TB_LOG_DIR"
#: Maximum names listed for one job, files shown, and bytes copied for one TensorBoard.
_MAX_NAMES = 20_000
_MAX_FILES = 1_000
_MAX_BYTES = 2 << 30
#: Maximum depth of folders.
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFile:
    """One file for TensorBoard.

    Attributes:
        run: TensorBoard's name for its folder, relative to the job's.
        path: in `store`; without a store, a path on this machine of a job of the portal's user, which can be linked.
    """

    run: str
    name: str
    path: str
    size: int
    store: FileStore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFileSet:
    """The event files of a job.

    Attributes:
        files: sorted by path.
        problems: what was skipped, and why; for display.
        searched: the places searched.
    """

    files: tuple[EventFile, ...]
    problems: tuple[str, ...]
    searched: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def find(
    record: JobDirLocation, job: JobRecord, store_of: Callable[[str], FileStore], may_open: Callable[[str], bool]
) -> EventFileSet:
    """Search the job's working directories, and the places of summaries in its settings.

    Args:
        store_of: returns the file system of an address; the caller closes it.
        may_open: returns True if an address in another user's job may be opened.
    """
    found: dict[str, EventFile] = {}
    problems: list[str] = []
    searched: list[str] = []
    for run, place in _iterate_places(record, job):
        if place in searched:
            continue
        searched.append(place)
        try:
            for file in _search_place(record, run, place, store_of, may_open):
                found.setdefault(file.path, file)
                if len(found) >= _MAX_FILES:
                    problems.append(f"only the first {_MAX_FILES:,} event files are shown.")
                    break
        except (TonyError, OSError, ValueError) as error:
            problems.append(f"{place}: {join_lines(error)}")
    return EventFileSet(
        files=tuple(found[path] for path in sorted(found)), problems=tuple(problems), searched=tuple(searched)
    )


def gather(summaries: Mapping[str, EventFileSet], folder: Path) -> None:
    """Collect the files in a folder: local ones as links, others as copies. Several jobs get one folder each.

    Raises:
        StorageError: they are too large, or cannot be read.
    """
    left = _MAX_BYTES
    for job, found in summaries.items():
        top = folder / job if len(summaries) > 1 else folder
        for number, file in enumerate(found.files):
            at = top.joinpath(*_split_safe_parts(file.run))
            try:
                at.mkdir(parents=True, exist_ok=True, mode=0o700)
                # TensorBoard sorts a run's files by name; files of two places may have the same name.
                target = at / (file.name if not (at / file.name).exists() else f"{file.name}.{number}")
                if file.store is None:
                    target.symlink_to(file.path)
                else:
                    left = _copy(file.store, file.path, target, left)
            except OSError as error:
                raise StorageError(f"cannot copy {file.path}: {error.strerror}") from error


def _copy(store: FileStore, path: str, target: Path, left: int) -> int:
    with target.open("xb") as out:
        for piece in store.read_pieces(path):
            left -= len(piece)
            if left < 0:
                raise StorageError(f"the event files have more than {_MAX_BYTES >> 30} GiB, the limit for copies")
            out.write(piece)
    return left


def _iterate_places(record: JobDirLocation, job: JobRecord) -> Iterator[tuple[str, str]]:
    """Yield run and place: a path, an address, or `work` for the folder in the job directory."""
    spec = job.spec
    yield "", "work"
    for name, role in spec.effective_roles.items():
        for index in range(min(role.instances, _MAX_FILES)):
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
            for setting in (role.progress_summaries, role.env.get(VARIABLE), spec.env.get(VARIABLE)):
                place = fill(setting, values).strip() if setting else ""
                if record.own and place.startswith("~/"):  # the portal user's home; programs expand it themselves
                    place = os.path.expanduser(place)
                if is_address(place) or place.startswith("/"):
                    run = str(task) if "{index}" in (setting or "") else ""
                    yield run, place
    # Relative paths are below the tasks' working directories, which are searched completely.


def _search_place(
    record: JobDirLocation,
    run: str,
    place: str,
    store_of: Callable[[str], FileStore],
    may_open: Callable[[str], bool],
) -> Iterator[EventFile]:
    budget = [_MAX_NAMES]
    if place == "work":
        if record.store is not None:
            yield from _list_store_event_files(record.store, join_path(record.path, "work"), run, budget, None)
        elif not record.folder.work.is_symlink():
            yield from _list_event_files(record.folder.work, run, budget)
    elif is_address(place):
        owner = None
        if not record.own:  # check all of this before accessing that file system
            if not may_open(place):
                raise ValueError("not opened: it is in none of the file systems that this portal was started with.")
            owner = find_owner(record.store, record.path)
        yield from _list_store_event_files(store_of(place), "", run, budget, owner)
    elif record.own:
        yield from _list_event_files(Path(place), run, budget)
    else:
        raise ValueError(
            "it is outside of the job directory. Only jobs in the portal's own state directory can name such a folder."
        )


def _list_event_files(top: Path, run: str, budget: list[int]) -> Iterator[EventFile]:
    """Yield event files of a folder on this machine, of a job of the portal's user. Links are not followed."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        below = os.path.relpath(folder, top)
        if below.count(os.sep) > _MAX_DEPTH:
            folders.clear()
        budget[0] -= len(names) + len(folders)
        if budget[0] < 0:
            raise ValueError(f"there are more than {_MAX_NAMES:,} files; the others were not searched.")
        for name in sorted(names):
            if "tfevents" not in name:
                continue
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                at = join_path(run, "" if below == "." else below)
                yield EventFile(run=at, name=name, path=path, size=status.st_size)


def _list_store_event_files(
    store: FileStore, top: str, run: str, budget: list[int], owner: str | None
) -> Iterator[EventFile]:
    waiting = [(top, run, 0)]
    while waiting:
        path, at, depth = waiting.pop()
        items: list[Item] = sorted(store.list(path), key=lambda item: item.name)
        budget[0] -= len(items)
        if budget[0] < 0:
            raise ValueError(f"there are more than {_MAX_NAMES:,} files; the others were not searched.")
        for item in items:
            if item.folder and depth < _MAX_DEPTH:
                waiting.append((join_path(path, item.name), join_path(at, item.name), depth + 1))
            elif not item.folder and "tfevents" in item.name and owner in (None, item.owner):
                yield EventFile(run=at, name=item.name, path=join_path(path, item.name), size=item.size, store=store)


def _split_safe_parts(run: str) -> list[str]:
    """Split a run into folder names, without parts that lead elsewhere."""
    return [part.replace("\0", "_") for part in run.split("/") if part not in ("", ".", "..")]
