"""Stages a job: checks the files it names, copies them to the cache, and links them from the job directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tony.errors import ArchiveError, ConfigError, Problem
from tony.linux.disk_errors import explain_os_error
from tony.model.file_entry import FileEntry, is_archive, parse_file_entry
from tony.model.hdfs_uri import is_address
from tony.model.job_spec import MIB, JobSpec
from tony.model.staged_files import LeftOut, Placement, StagedItem, StagedJob, StagedRole
from tony.model.state_directory import Home, JobFolder
from tony.storage.cache.object_cache import Cache, Stored
from tony.storage.manifest import ManifestEntryKind
from tony.storage.staging import staging_requests
from tony.storage.staging.folder_scan import Scan, find_largest_entries, shorten_path
from tony.storage.staging.remote_files_interface import RemoteFileNotFoundError, RemoteFiles
from tony.storage.staging.staging_requests import StagingRejectedError, StagingRequest
from tony.storage.staging.tar_writer import FileChangedError
from tony.units import format_count, format_size


@dataclass(frozen=True, slots=True)
class SubmissionNotice:
    """A message about a submission, such as the size of a packed folder.

    Attributes:
        is_warning: the job may not run as its user expects.
    """

    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"warning: {self.text}" if self.is_warning else self.text


OnNotice = Callable[[SubmissionNotice], None]


#: Bytes of a file or folder that cause a warning: it is copied for every task.
LARGE = 500 * MIB
#: Most errors that are reported per folder; the others are counted.
_MAX_ERRORS = 10
#: Most folders that are named among those left out.
_MAX_FOLDERS = 3


def stage(
    spec: JobSpec,
    home: Home,
    folder: JobFolder,
    on_notice: OnNotice,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    same_host: bool = True,
    remote_files: Callable[[], RemoteFiles] | None = None,
) -> StagedJob:
    """Stage all files of a job. Files that are already in the cache are not read again.

    Args:
        spec: with absolute paths.
        folder: the job directory; gets `staged/` with links to the files of the job.
        on_notice: receives sizes, warnings, and what is left out.
        sources: dotted key -> where it was set, for errors.
        same_host: the tasks run on this machine, so an interpreter's path must exist here.
        remote_files: returns the file systems of addresses, or raises ValueError; called only if needed.

    Raises:
        ConfigError: everything that cannot be staged.
        StorageError: a local file system failed.
        TonyError: a cluster's file system does not answer.
    """
    cache = Cache(home.cache)
    cache.prepare()
    stager = _Stager(spec, home, cache, on_notice, sources, same_host, remote_files)
    with contextlib.closing(stager):
        plans = stager.plan()
        stager.raise_problems()
        roles = {name: stager.store(plan) for name, plan in plans.items()}
        left_out = stager.find_left_out()
        stager.raise_problems()
    with explain_os_error(f"write {folder.staged}", folder.path):
        folder.staged.mkdir(mode=0o700, parents=True, exist_ok=True)
        for digest in {i.digest for role in roles.values() for i in role.items if i.in_place is None}:
            cache.link(digest, folder.staged)
    return StagedJob(roles=roles, left_out=left_out)


def find_problems(
    spec: JobSpec,
    home: Home,
    *,
    sources: Mapping[str, str] = MappingProxyType({}),
    same_host: bool = True,
    remote_files: Callable[[], RemoteFiles] | None = None,
) -> Sequence[Problem]:
    """Return why the files of a job cannot be staged, as far as it shows before they are read. Arguments as of `stage`.

    Raises:
        StorageError: a local file system failed.
        TonyError: a cluster's file system does not answer.
    """
    stager = _Stager(spec, home, Cache(home.cache), lambda _: None, sources, same_host, remote_files)
    with contextlib.closing(stager):
        stager.plan()
    return tuple(stager.problems)


#: Result of resolving a key: one or several staging requests, or the path of an interpreter on the nodes.
Resolution = StagingRequest | tuple[StagingRequest, ...] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyedRequest:
    """A staging request and the key and text that it comes from."""

    key: str
    text: str
    request: StagingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoleStaging:
    """Needs of one role: requests in order, and the path of its interpreter on the nodes if it is not staged."""

    requests: tuple[_KeyedRequest, ...]
    python: str | None


@dataclass(slots=True)
class _Stager:
    spec: JobSpec
    home: Home
    cache: Cache
    on_notice: OnNotice
    sources: Mapping[str, str]
    same_host: bool
    open_remote_files: Callable[[], RemoteFiles] | None
    files: RemoteFiles | None = None
    problems: dict[Problem, None] = field(default_factory=dict)  # an ordered set
    planned: dict[tuple[str, str], Resolution | None] = field(default_factory=dict)
    stored: dict[StagingRequest, StagedItem | None] = field(default_factory=dict)

    def refuse(self, key: str, value: str, message: str) -> None:
        self.problems[Problem(key=key, value=value, message=message, source=self.sources.get(key))] = None

    def raise_problems(self) -> None:
        if self.problems:
            raise ConfigError(tuple(self.problems))

    def close(self) -> None:
        if self.files:
            self.files.close()

    def get_remote_files(self) -> RemoteFiles:
        """Return the cluster's file systems.

        Raises:
            ValueError: the cluster is unknown.
        """
        if self.files is None:
            if self.open_remote_files is None:
                raise ValueError("only local paths are allowed.")
            self.files = self.open_remote_files()
        return self.files

    # Resolve requests.

    def plan(self) -> dict[str, _RoleStaging]:
        files = {name: self.plan_files(name) for name in self.spec.effective_roles}
        source = self.plan_source(files.values())
        return {name: self.plan_role(name, source, files[name]) for name in files}

    def plan_role(self, role: str, source: _KeyedRequest | None, files: tuple[_KeyedRequest, ...]) -> _RoleStaging:
        own = self.spec.effective_roles[role].python
        key, text = (f"roles.{role}.python", own) if own else ("python", self.spec.python)
        python = self.resolve_once(key, text, lambda: self.plan_python(text)) if text else None
        first = (source,) if source else ()
        if isinstance(python, StagingRequest) and text:
            return _RoleStaging(
                requests=(*first, *files, _KeyedRequest(key=key, text=text, request=python)), python=None
            )
        return _RoleStaging(requests=(*first, *files), python=python if isinstance(python, str) else None)

    def plan_python(self, text: str) -> StagingRequest | str:
        if ":" in str(self.home.path):
            raise StagingRejectedError(
                f"programs could not find it: PATH would contain {self.home.path}, whose `:` separates entries. "
                "Set TONY_HOME to a folder without `:`."
            )
        if is_address(text):
            return self.archive(text, Placement.PYTHON)
        return staging_requests.request_python(text, same_host=self.same_host)

    def plan_files(self, role: str) -> tuple[_KeyedRequest, ...]:
        keys = [("files", text) for text in self.spec.files]
        keys += [(f"roles.{role}.files", text) for text in self.spec.effective_roles[role].files]
        requests: dict[tuple[Path, str], _KeyedRequest] = {}
        for key, text in keys:
            found = self.resolve_once(key, text, lambda text=text: self.plan_file(text))  # type: ignore[misc]
            for request in found if isinstance(found, tuple) else ():
                requests.setdefault((request.path, request.name), _KeyedRequest(key=key, text=text, request=request))
        self.refuse_clashes(tuple(requests.values()))
        return tuple(requests.values())

    def plan_file(self, text: str) -> tuple[StagingRequest, ...]:
        entry = parse_file_entry(text)
        try:
            if is_address(entry.path):
                return self.plan_remote_file(entry, renamed=entry.new_name is not None)
            if entry.optional:
                os.stat(entry.path)
        except (RemoteFileNotFoundError, FileNotFoundError, NotADirectoryError):
            if not entry.optional:
                raise
            self.warn(f"{entry.path} does not exist; the job continues without it (#optional)")
            return ()
        return (staging_requests.request_file(entry, self.find_own_folders(Path(entry.path))),)

    def plan_remote_file(self, entry: FileEntry, *, renamed: bool) -> tuple[StagingRequest, ...]:
        from tony.storage.staging import remote_sources  # late: most jobs name no address

        files = self.get_remote_files()
        found, warning = remote_sources.request_file(
            entry.path, entry.name, renamed=renamed, unpack=entry.unpack, files=files
        )
        if warning:
            self.warn(f"{entry.path}: {warning}")
        return found

    def archive(self, address: str, placement: Placement) -> StagingRequest:
        from tony.storage.staging import remote_sources  # late: most jobs name no address

        return remote_sources.request_archive(address, placement, self.get_remote_files())

    def plan_source(self, files: Iterable[tuple[_KeyedRequest, ...]]) -> _KeyedRequest | None:
        text = self.spec.source
        if not text:
            return None
        if is_address(text):
            found = self.resolve_once("source", text, lambda: self.archive(text, Placement.ROOT))
            return _KeyedRequest(key="source", text=text, request=found) if isinstance(found, StagingRequest) else None
        texts = (self.spec.python, *(role.python for role in self.spec.effective_roles.values()))
        top = Path(text)
        without = {*self.find_own_folders(top), *_find_replaced(top, files), *_find_archives(top, filter(None, texts))}
        request = self.resolve_once(
            "source", text, lambda: staging_requests.request_source(text, frozenset(without), git=self.spec.gitignore)
        )
        return _KeyedRequest(key="source", text=text, request=request) if isinstance(request, StagingRequest) else None

    def find_left_out(self) -> LeftOut | None:
        """Return what an ignore file leaves out of the source folder; None if nothing."""
        found = self.planned.get(("source", self.spec.source or ""))
        return found.scan.left_out if isinstance(found, StagingRequest) and found.scan else None

    def resolve_once(self, key: str, text: str, resolve: Callable[[], Resolution]) -> Resolution | None:
        """Resolve one key, the same text only once for all roles; None if it was refused."""
        if (key, text) not in self.planned:
            self.planned[key, text] = None
            try:
                found = resolve()
            except ValueError as error:
                self.refuse(key, text, str(error))
                return None
            except OSError as error:
                self.refuse(key, text, f"it cannot be read ({error.strerror}).")
                return None
            self.planned[key, text] = found
            for request in found if isinstance(found, tuple) else (found,):
                if isinstance(request, StagingRequest) and request.scan:
                    self.refuse_content(key, text, request.scan)
        return self.planned[key, text]

    def refuse_content(self, key: str, text: str, scan: Scan) -> None:
        for sentence in scan.refused[:_MAX_ERRORS]:
            self.refuse(key, text, sentence)
        if len(scan.refused) > _MAX_ERRORS:
            self.refuse(key, text, f"... and {len(scan.refused) - _MAX_ERRORS} more errors of this kind.")

    def refuse_clashes(self, requests: tuple[_KeyedRequest, ...]) -> None:
        for later, earlier in staging_requests.clashes([request.request.name for request in requests]):
            one, other = requests[later], requests[earlier]
            self.refuse(
                one.key,
                one.text,
                f"`{one.request.name}` conflicts with `{other.request.name}` of `{other.text}`. "
                "Rename one of them: path::name.",
            )

    def find_own_folders(self, folder: Path) -> list[str]:
        """Return the cache and job directories as paths inside `folder`: packing them would never end."""
        top = Path(os.path.realpath(folder))  # like `resolve`, but loops of links are reported later
        own = (path.resolve() for path in (self.home.cache, self.home.jobs))
        return [str(path.relative_to(top)) for path in own if path != top and path.is_relative_to(top)]

    # Store them.

    def store(self, plan: _RoleStaging) -> StagedRole:
        items = [self.store_once(request) for request in plan.requests]
        return StagedRole(items=tuple(item for item in items if item is not None), python=plan.python)

    def store_once(self, keyed: _KeyedRequest) -> StagedItem | None:
        if keyed.request not in self.stored:
            self.stored[keyed.request] = None
            self.warn_if_large(keyed)
            try:
                item, stored = self.store_request(keyed.request)
            except (ArchiveError, ValueError) as error:
                self.refuse(keyed.key, keyed.text, str(error))
                return None
            except FileChangedError as error:
                message = (
                    f"{error.path} changed while it was packed. Submit again when it is complete, or leave it out."
                )
                self.refuse(keyed.key, keyed.text, message)
                return None
            self.stored[keyed.request] = item
            self.report_stored(keyed, stored)
        return self.stored[keyed.request]

    def store_request(self, request: StagingRequest) -> tuple[StagedItem, Stored]:
        if request.remote and self.files and self.files.in_place:
            from tony.storage.staging import remote_sources  # late: most jobs name no address

            return remote_sources.stage_in_place(request, request.remote), Stored(
                digest=request.remote.key, size=request.remote.size, reused=True
            )
        return staging_requests.store(request, self.cache, same_host=self.same_host, files=self.files)

    def inform(self, text: str) -> None:
        self.on_notice(SubmissionNotice(text))

    def warn(self, text: str) -> None:
        self.on_notice(SubmissionNotice(text, is_warning=True))

    def warn_if_large(self, keyed: _KeyedRequest) -> None:
        """Warn before packing, which takes a while, so that the user can interrupt it."""
        scan = keyed.request.scan
        label = _format_label(keyed)
        if scan and scan.size > LARGE:
            parts = ", ".join(f"{path} ({format_size(size)})" for path, size in find_largest_entries(scan))
            self.warn(
                f"{label} is large ({format_size(scan.size)}) and is copied for every task. Largest entries: "
                f"{parts}. Leave out what the job does not need with a .tonyignore file."
            )
        elif scan is None and keyed.key.endswith("files") and keyed.request.size > LARGE:
            size = format_size(keyed.request.size)
            self.warn(f"{label} is large ({size}) and is copied for every task")

    def report_stored(self, keyed: _KeyedRequest, stored: Stored) -> None:
        request, scan = keyed.request, keyed.request.scan
        label = _format_label(keyed)
        note = ", unchanged" if stored.reused else ""
        if request.remote and self.files and self.files.in_place:
            note = ", already in HDFS"
        if scan is None:
            self.inform(f"{label}: {format_size(stored.size)}{note}")
            return
        count = sum(found.kind is ManifestEntryKind.FILE for found in scan.found)
        self.inform(f"{label}: {format_size(scan.size)} in {format_count(count, 'file')}{note}")
        for sentence in scan.skipped[:_MAX_ERRORS]:
            self.warn(f"{label}: {sentence}")
        if scan.left_out:
            self.inform(f"{label}: {_describe_left_out(scan.left_out)}")
            if not scan.found:
                self.warn(f"{label}: everything in {request.path} is left out by {scan.left_out.ignore_file}")


def _describe_left_out(left_out: LeftOut) -> str:
    """Return `left out by .gitignore: 4 files (900k), the largest demo/agaricus.train, and 2 folders (data, .venv)`."""
    folders = [path.rstrip("/") for path in left_out.paths if path.endswith("/")]
    files = [path for path in left_out.paths if not path.endswith("/")]
    parts = []
    if left_out.files:
        largest = "" if left_out.files == 1 else "the largest "
        count = format_count(left_out.files, "file")
        parts.append(f"{count} ({format_size(left_out.size)}), {largest}{shorten_path(files[0])}")
    if left_out.folders:
        named = ", ".join(map(shorten_path, folders[:_MAX_FOLDERS])) + (", ..." if len(folders) > _MAX_FOLDERS else "")
        parts.append(f"{format_count(left_out.folders, 'folder')} ({named})")
    return f"left out by {left_out.ignore_file}: {', and '.join(parts)}; {left_out.remedy}"


def _format_label(keyed: _KeyedRequest) -> str:
    return "source" if keyed.key == "source" else keyed.request.name


def _find_replaced(source: Path, files: Iterable[tuple[_KeyedRequest, ...]]) -> set[str]:
    """Return files of the source that every role's `files` provides under the same name: they are not packed twice."""
    top = os.path.abspath(source)
    common: set[str] | None = None
    for requests in files:
        pairs = ((request.request.name, os.path.abspath(parse_file_entry(request.text).path)) for request in requests)
        own = {name for name, path in pairs if path == f"{top}/{name}"}
        common = own if common is None else common & own
    return common or set()


def _find_archives(source: Path, texts: Iterable[str]) -> set[str]:
    """Return the archives of Python environments in the source: each is packed on its own."""
    top = os.path.abspath(source)
    paths = (os.path.abspath(text) for text in texts if not is_address(text) and is_archive(text))
    return {os.path.relpath(path, top) for path in paths if path.startswith(f"{top}/")}
