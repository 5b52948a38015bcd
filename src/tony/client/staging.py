"""Stages a job: what its keys name is checked, put into the cache, and kept there by links in the job's folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from tony.config.paths import split_entry
from tony.config.remote_paths import is_address
from tony.dataclass import dataclass, field
from tony.errors import ArchiveError, ConfigError, Problem
from tony.model.job_spec import MIB, JobSpec
from tony.model.layout import Home, JobFolder
from tony.model.staged import LeftOut, Placement, StagedItem, StagedJob, StagedRole
from tony.storage import file_entries, staging_requests
from tony.storage.disk_errors import explain_os_error
from tony.storage.disk_usage import largest_entries
from tony.storage.file_entries import FileEntry
from tony.storage.folder_scan import Scan, shorten_path
from tony.storage.manifest import ManifestEntryKind
from tony.storage.object_cache import Cache, Stored
from tony.storage.remote_files import NotThere, RemoteFiles
from tony.storage.staging_requests import StagingRejectedError, StagingRequest
from tony.storage.tar_writer import FileChangedError
from tony.units import format_size

Notice = Callable[[str], None]

#: More than this is said to be much: it is laid down for every task.
LARGE = 500 * MIB
#: As many mistakes of one folder are reported; the rest is counted.
_SHOWN = 10
#: Folders that are named among those left out.
_SHOWN_FOLDERS = 3


def stage(
    spec: JobSpec,
    home: Home,
    folder: JobFolder,
    notice: Notice,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    same_host: bool = True,
    far: Callable[[], RemoteFiles] | None = None,
) -> StagedJob:
    """Stages everything a job needs. What is in the cache already is not read again, let alone copied.

    Args:
        spec: with absolute paths.
        folder: the job's; gets `staged/` with links to the job's objects.
        notice: gets what is worth saying: sizes, warnings, what is left out.
        sources: dotted key -> where it was set, for the problems.
        same_host: the tasks run on this machine, so an interpreter's path must be here.
        far: the file systems that addresses lead to; raises ValueError if there are none. Asked only for addresses.

    Raises:
        ConfigError: all that cannot be staged.
        StorageError: a file system says no.
        TonyError: a cluster's file system does not answer.
    """
    cache = Cache(home.cache)
    cache.prepare()
    stager = _Stager(spec, home, cache, notice, sources, same_host, far)
    try:
        plans = stager.plan()
        stager.raise_problems()
        roles = {name: stager.store(plan) for name, plan in plans.items()}
        left_out = stager.left_out_of_source()
        stager.raise_problems()
    finally:
        stager.close()
    with explain_os_error(f"write {folder.staged}", folder.path):
        folder.staged.mkdir(mode=0o700, parents=True, exist_ok=True)
        for digest in {i.digest for role in roles.values() for i in role.items if i.in_place is None}:
            cache.link(digest, folder.staged)
    return StagedJob(roles=roles, left_out=left_out)


#: What is found where a key leads: a thing to stage, several, or the path of an interpreter on the nodes.
Look = StagingRequest | tuple[StagingRequest, ...] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A wish and the words that it was made in."""

    key: str
    text: str
    wish: StagingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What one role wants: things to stage, in order, or an interpreter on the nodes."""

    asked: tuple[_Asked, ...]
    python: str | None


@dataclass(slots=True)
class _Stager:
    spec: JobSpec
    home: Home
    cache: Cache
    notice: Notice
    sources: Mapping[str, str]
    same_host: bool
    far: Callable[[], RemoteFiles] | None
    files: RemoteFiles | None = None
    problems: dict[Problem, None] = field(default_factory=dict)  # a set that keeps its order
    planned: dict[tuple[str, str], Look | None] = field(default_factory=dict)
    stored: dict[StagingRequest, StagedItem | None] = field(default_factory=dict)

    def refuse(self, key: str, value: str, message: str) -> None:
        self.problems[Problem(key=key, value=value, message=message, source=self.sources.get(key))] = None

    def raise_problems(self) -> None:
        if self.problems:
            raise ConfigError(tuple(self.problems))

    def close(self) -> None:
        if self.files:
            self.files.close()

    def elsewhere(self) -> RemoteFiles:
        """The cluster's file systems.

        Raises:
            ValueError: nobody knows which.
        """
        if self.files is None:
            if self.far is None:
                raise ValueError("only paths of this machine can be given.")
            self.files = self.far()
        return self.files

    # Looking at what is asked for.

    def plan(self) -> dict[str, _Plan]:
        files = {name: self.plan_files(name) for name in self.spec.effective_roles}
        source = self.plan_source(files.values())
        return {name: self.plan_role(name, source, files[name]) for name in files}

    def plan_role(self, role: str, source: _Asked | None, files: tuple[_Asked, ...]) -> _Plan:
        own = self.spec.effective_roles[role].python
        key, text = (f"roles.{role}.python", own) if own else ("python", self.spec.python)
        python = self.once(key, text, lambda: self.plan_python(text)) if text else None
        first = (source,) if source else ()
        if isinstance(python, StagingRequest) and text:
            return _Plan(asked=(*first, *files, _Asked(key=key, text=text, wish=python)), python=None)
        return _Plan(asked=(*first, *files), python=python if isinstance(python, str) else None)

    def plan_python(self, text: str) -> StagingRequest | str:
        if ":" in str(self.home.path):
            raise StagingRejectedError(
                f"programs would not find it: it is put on PATH through {self.home.path}, and PATH is divided at every "
                "`:`. Set TONY_HOME to a folder without one."
            )
        if is_address(text):
            return self.archive(text, Placement.PYTHON)
        return staging_requests.python(text, same_host=self.same_host)

    def plan_files(self, role: str) -> tuple[_Asked, ...]:
        keys = [("files", text) for text in self.spec.files]
        keys += [(f"roles.{role}.files", text) for text in self.spec.effective_roles[role].files]
        asked: dict[tuple[Path, str], _Asked] = {}
        for key, text in keys:
            found = self.once(key, text, lambda text=text: self.plan_file(text))  # type: ignore[misc]
            for wish in found if isinstance(found, tuple) else ():
                asked.setdefault((wish.path, wish.name), _Asked(key=key, text=text, wish=wish))
        self.refuse_clashes(tuple(asked.values()))
        return tuple(asked.values())

    def plan_file(self, text: str) -> tuple[StagingRequest, ...]:
        entry = file_entries.parse(text)
        try:
            if is_address(entry.path):
                return self.plan_far_file(entry, renamed=split_entry(text).name is not None)
            if entry.optional:
                os.stat(entry.path)
        except (NotThere, FileNotFoundError, NotADirectoryError):
            if not entry.optional:
                raise
            self.notice(f"warning: {entry.path} is not there; the job goes without it (#optional)")
            return ()
        return (staging_requests.file(entry, self.own_folders(Path(entry.path))),)

    def plan_far_file(self, entry: FileEntry, *, renamed: bool) -> tuple[StagingRequest, ...]:
        from tony.storage import remote_sources  # late: most jobs name no address

        files = self.elsewhere()
        found, said = remote_sources.file(entry.path, entry.name, renamed=renamed, unpack=entry.unpack, files=files)
        if said:
            self.notice(f"warning: {entry.path}: {said}")
        return found

    def archive(self, address: str, placement: Placement) -> StagingRequest:
        from tony.storage import remote_sources  # late: most jobs name no address

        return remote_sources.archive(address, placement, self.elsewhere())

    def plan_source(self, files: Iterable[tuple[_Asked, ...]]) -> _Asked | None:
        text = self.spec.source
        if not text:
            return None
        if is_address(text):
            found = self.once("source", text, lambda: self.archive(text, Placement.ROOT))
            return _Asked(key="source", text=text, wish=found) if isinstance(found, StagingRequest) else None
        without = {*self.own_folders(Path(text)), *_replaced(Path(text), files)}
        wish = self.once(
            "source", text, lambda: staging_requests.source(text, frozenset(without), git=self.spec.gitignore)
        )
        return _Asked(key="source", text=text, wish=wish) if isinstance(wish, StagingRequest) else None

    def left_out_of_source(self) -> LeftOut | None:
        """What an ignore file leaves out of the source folder; None if nothing."""
        found = self.planned.get(("source", self.spec.source or ""))
        return found.scan.left_out if isinstance(found, StagingRequest) and found.scan else None

    def once(self, key: str, text: str, look: Callable[[], Look]) -> Look | None:
        """Looks at what one key says, the same words once for all roles; None if it was refused."""
        if (key, text) not in self.planned:
            self.planned[key, text] = None
            try:
                found = look()
            except ValueError as error:
                self.refuse(key, text, str(error))
                return None
            except OSError as error:
                self.refuse(key, text, f"it cannot be read ({error.strerror}).")
                return None
            self.planned[key, text] = found
            for wish in found if isinstance(found, tuple) else (found,):
                if isinstance(wish, StagingRequest) and wish.scan:
                    self.refuse_content(key, text, wish.scan)
        return self.planned[key, text]

    def refuse_content(self, key: str, text: str, scan: Scan) -> None:
        for sentence in scan.refused[:_SHOWN]:
            self.refuse(key, text, sentence)
        if len(scan.refused) > _SHOWN:
            self.refuse(key, text, f"... and {len(scan.refused) - _SHOWN} more of the kind.")

    def refuse_clashes(self, asked: tuple[_Asked, ...]) -> None:
        for later, earlier in file_entries.clashes([a.wish.name for a in asked]):
            one, other = asked[later], asked[earlier]
            self.refuse(
                one.key,
                one.text,
                f"`{one.wish.name}` is in the way of `{other.wish.name}`, which `{other.text}` gives. "
                "Write `path::name` for one of them.",
            )

    def own_folders(self, folder: Path) -> list[str]:
        """Our own cache and records, as paths inside `folder`: packing them would never end."""
        top = Path(
            os.path.realpath(folder)
        )  # as `resolve`, but a loop of links is told by those who look at the folder
        own = (path.resolve() for path in (self.home.cache, self.home.jobs))
        return [str(path.relative_to(top)) for path in own if path != top and path.is_relative_to(top)]

    # Storing it.

    def store(self, plan: _Plan) -> StagedRole:
        items = [self.store_once(asked) for asked in plan.asked]
        return StagedRole(items=tuple(item for item in items if item is not None), python=plan.python)

    def store_once(self, asked: _Asked) -> StagedItem | None:
        if asked.wish not in self.stored:
            self.stored[asked.wish] = None
            self.warn_if_large(asked)
            try:
                item, stored = self.store_wish(asked.wish)
            except (ArchiveError, ValueError) as error:
                self.refuse(asked.key, asked.text, str(error))
                return None
            except FileChangedError as error:
                message = f"{error.path} is written to while it is packed. Wait for it to end, or leave it out."
                self.refuse(asked.key, asked.text, message)
                return None
            self.stored[asked.wish] = item
            self.tell(asked, stored)
        return self.stored[asked.wish]

    def store_wish(self, wish: StagingRequest) -> tuple[StagedItem, Stored]:
        if wish.remote and self.files and self.files.in_place:
            from tony.storage import remote_sources  # late: most jobs name no address

            return remote_sources.in_place(wish, wish.remote), Stored(
                digest=wish.remote.key, size=wish.remote.size, reused=True
            )
        return staging_requests.store(wish, self.cache, same_host=self.same_host, files=self.files)

    def warn_if_large(self, asked: _Asked) -> None:
        """Before it is packed, which takes a while: who did not mean it can still say so."""
        scan = asked.wish.scan
        what = _called(asked)
        if scan and scan.size > LARGE:
            parts = ", ".join(f"{path} ({format_size(size)})" for path, size in largest_entries(scan))
            self.notice(
                f"warning: {what} is large ({format_size(scan.size)}) and is laid down for every task. The biggest in "
                f"it: {parts}. Leave out what the job does not need with a .tonyignore file."
            )
        elif scan is None and asked.key.endswith("files") and asked.wish.size > LARGE:
            size = format_size(asked.wish.size)
            self.notice(f"warning: {what} is large ({size}) and is laid down for every task.")

    def tell(self, asked: _Asked, stored: Stored) -> None:
        wish, scan = asked.wish, asked.wish.scan
        what = _called(asked)
        again = ", as before" if stored.reused else ""
        if wish.remote and self.files and self.files.in_place:
            again = ", in HDFS already"
        if scan is None:
            self.notice(f"{what}: {format_size(stored.size)}{again}")
            return
        count = sum(found.kind is ManifestEntryKind.FILE for found in scan.found)
        self.notice(f"{what}: {format_size(scan.size)} in {count} file{'' if count == 1 else 's'}{again}")
        for sentence in scan.skipped[:_SHOWN]:
            self.notice(f"warning: {what}: {sentence}")
        if scan.left_out:
            self.notice(f"{what}: {_describe_left_out(scan.left_out)}")
            if not scan.found:
                self.notice(f"warning: {what}: everything in {wish.path} is left out by {scan.left_out.ignore_file}")


def _describe_left_out(left_out: LeftOut) -> str:
    """Return `left out by .gitignore: 4 files (900k), the largest demo/agaricus.train, and 2 folders (data, .venv)`."""
    folders = [path.rstrip("/") for path in left_out.paths if path.endswith("/")]
    files = [path for path in left_out.paths if not path.endswith("/")]
    parts = []
    if left_out.files:
        one = left_out.files == 1
        count = "1 file" if one else f"{left_out.files} files"
        parts.append(f"{count} ({format_size(left_out.size)}), {'' if one else 'the largest '}{shorten_path(files[0])}")
    if left_out.folders:
        named = ", ".join(map(shorten_path, folders[:_SHOWN_FOLDERS])) + (
            ", ..." if len(folders) > _SHOWN_FOLDERS else ""
        )
        count = "1 folder" if left_out.folders == 1 else f"{left_out.folders} folders"
        parts.append(f"{count} ({named})")
    return f"left out by {left_out.ignore_file}: {', and '.join(parts)}; {left_out.remedy}"


def _called(asked: _Asked) -> str:
    return "source" if asked.key == "source" else asked.wish.name


def _replaced(source: Path, files: Iterable[tuple[_Asked, ...]]) -> set[str]:
    """What lies in the source and is laid down by every role's `files` under the same name: not packed twice."""
    top = os.path.abspath(source)
    common: set[str] | None = None
    for asked in files:
        pairs = ((a.wish.name, os.path.abspath(file_entries.parse(a.text).path)) for a in asked)
        own = {name for name, path in pairs if path == f"{top}/{name}"}
        common = own if common is None else common & own
    return common or set()
