"""Requests to stage what a job's keys name, checked on this machine before anything is read or written."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tony.model.file_entry import FileEntry, is_archive
from tony.model.staged_files import Placement, StagedItem
from tony.storage.archives.archive_detection import KNOWN, Format, detect, find_unsupported
from tony.storage.cache.object_cache import Cache, Stored
from tony.storage.environments.environment_cache import build_missing_python_error, find_interpreter, find_prefix
from tony.storage.manifest import MAX_FOLLOWED, resolve_link
from tony.storage.staging import cache_ingest
from tony.storage.staging.folder_scan import Scan, scan
from tony.storage.staging.remote_files_interface import RemoteFile, RemoteFiles

if TYPE_CHECKING:
    from tony.storage.archives.unpack import Contents

#: `hdfs://host/x`, also after path normalization has made it absolute and its slashes single.
_REMOTE = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9+.-]+):/{1,3}[^/]")


def find_remote_scheme(path: str) -> str | None:
    """Return the scheme of an address such as `hdfs://host/x`; None for a path."""
    match = _REMOTE.search(path)
    return match[1] if match else None


def clashes(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of positions whose names conflict: equal, or one below the other. Later one first."""
    return [
        (later, earlier)
        for later, name in enumerate(names)
        for earlier, other in enumerate(names[:later])
        if _conflict(name, other)
    ]


def _conflict(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}/") or other.startswith(f"{name}/")


class StagingRejectedError(ValueError):
    """The request cannot be staged; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagingRequest:
    """One thing to stage. Compared by identity: equal-looking requests stay separate.

    Attributes:
        path: absolute, links followed; of a remote file its address.
        name: its name in the task's working directory, and in messages.
        format: of an archive that will be unpacked.
        scan: of a folder.
        git: a folder's `.gitignore` counts.
        without: what is left out of a folder.
        mode: permission bits of a single file.
        remote: the file, if it is in a cluster's file system.
    """

    path: Path
    name: str
    placement: Placement
    format: Format | None = None
    scan: Scan | None = None
    git: bool = False
    without: Collection[str] = ()
    mode: int = 0o644
    remote: RemoteFile | None = None

    @property
    def size(self) -> int:
        """Return the bytes of a single file; 0 if it no longer exists, which is reported when it is packed."""
        if self.remote:
            return self.remote.size
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


def request_source(text: str, without: Collection[str], *, git: bool = True) -> StagingRequest:
    """Return the request for the job's source: a folder or an archive.

    Args:
        git: a folder's `.gitignore` counts.

    Raises:
        StagingRejectedError: it is neither.
    """
    path, status = _resolve(text)
    name = path.name or "source"
    if stat.S_ISDIR(status.st_mode):
        found = scan(path, git=git, without=without)
        return StagingRequest(path=path, name=name, placement=Placement.ROOT, scan=found, git=git, without=without)
    kind = _archive(path, status, "Give the folder it is in, or list it under `files`.")
    return StagingRequest(path=path, name=name, placement=Placement.ROOT, format=kind)


def request_file(entry: FileEntry, without: Collection[str]) -> StagingRequest:
    """Return the request for one of a job's or role's files. A folder is copied as a folder.

    A user who names a folder wants its contents: `.gitignore` does not count there, only `.tonyignore`.

    Raises:
        StagingRejectedError: it does not exist, or is to be unpacked and is no archive.
    """
    path, status = _resolve(entry.path)
    if stat.S_ISDIR(status.st_mode):
        found = scan(path, git=False, without=without)
        return StagingRequest(path=path, name=entry.name, placement=Placement.FOLDER, scan=found, without=without)
    if entry.unpack:
        kind = _archive(path, status, "Remove #archive to copy it unchanged.")
        return StagingRequest(path=path, name=entry.name, placement=Placement.FOLDER, format=kind)
    _require_file(path, status)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return StagingRequest(path=path, name=entry.name, placement=Placement.FILE, mode=mode)


def request_python(text: str, *, same_host: bool) -> StagingRequest | str:
    """Return the request for a job's Python archive, or the path (or name) of an interpreter on the nodes.

    Args:
        same_host: tasks run on this machine, so an interpreter must exist here.

    Raises:
        StagingRejectedError: it is none of these.
    """
    if "/" not in text:
        return text
    try:
        path, status = _resolve(text)
    except StagingRejectedError:
        if same_host or is_archive(text):
            raise
        return text
    if stat.S_ISDIR(status.st_mode):
        return _environment(Path(os.path.abspath(text)))
    _require_file(path, status)
    kind = detect(path)
    if kind is not None:
        return StagingRequest(path=path, name=path.name, placement=Placement.PYTHON, format=kind)
    other = find_unsupported(path)
    if other or not os.access(path, os.X_OK):
        what = f"a {other} archive" if other else "neither a supported archive nor executable"
        raise StagingRejectedError(
            f"it is {what}. Give a {KNOWN} archive of a venv or from conda-pack, or the path of an interpreter."
        )
    _require_program(path)
    return os.path.abspath(text)  # links not followed: a venv is found next to its link


def store(
    request: StagingRequest, cache: Cache, *, same_host: bool, files: RemoteFiles | None = None
) -> tuple[StagedItem, Stored]:
    """Store what a request names in the cache.

    Args:
        files: the file systems of remote files.

    Raises:
        ArchiveError: it is an archive that could not be unpacked.
        StagingRejectedError: it is an archive without a Python that could work here.
        FileChangedError: it is being changed.
        StorageError: the file system refuses.
        TonyError: the remote file system does not answer.
        ValueError: a remote file may not be read, or no longer exists.
    """
    if request.scan is not None:
        stored = cache_ingest.store_folder(
            cache, request.scan, lambda: scan(request.path, git=request.git, without=request.without), request.name
        )
    else:
        remote = request.remote and files and cache_ingest.store_remote_file(cache, request.remote, files)
        stored = remote or cache_ingest.store_file(cache, request.path, request.name)
        if request.format is not None:
            _check_archive(request, request.format, cache, stored, same_host=same_host)
    kind = Format.TAR if request.scan is not None else request.format
    item = StagedItem(
        digest=stored.digest,
        size=stored.size,
        name=request.name,
        placement=request.placement,
        suffix=kind.value if kind else "",
        mode=request.mode,
    )
    return item, stored


def _check_archive(request: StagingRequest, kind: Format, cache: Cache, stored: Stored, *, same_host: bool) -> None:
    """Read an archive to its end, once per content and use, to refuse a damaged one before the job starts."""
    if cache_ingest.is_checked(cache, request.path, stored.digest, request.placement.value):
        return
    is_python = request.placement is Placement.PYTHON
    try:
        from tony.storage.archives.unpack import check  # late: it loads every compression module

        contents = check(cache.find_object(stored.digest), kind, request.path.name, outside_links=is_python)
        if is_python:
            _require_python(contents, request.path.name, same_host=same_host)
    except BaseException:
        if not stored.reused:
            cache.find_object(stored.digest).unlink(missing_ok=True)
        raise
    cache_ingest.set_checked(cache, request.path, stored.digest, request.placement.value)


def _require_python(contents: Contents, name: str, *, same_host: bool) -> None:
    prefix = find_prefix(contents.kinds)
    if prefix is None:
        raise StagingRejectedError(build_missing_python_error(name))
    base = _base_interpreter(contents, f"{prefix}/bin/python".lstrip("/"))
    if same_host and base is not None and not os.path.exists(base):
        raise StagingRejectedError(
            f"its bin/python is a link to {base}, which does not exist on this machine. A venv uses the Python it was "
            "created with: install that, or pack the environment with conda-pack, which includes its own."
        )


def _base_interpreter(contents: Contents, python: str) -> str | None:
    """Return the absolute path that an environment's `python` is a link to, if it is one."""
    path = python if python in contents.kinds else f"{python}3"
    for _ in range(MAX_FOLLOWED):
        target = contents.links.get(path)
        if target is None or target.startswith("/"):
            return target
        path = resolve_link(path, target, {}) or ""
    return None


def _resolve(text: str) -> tuple[Path, os.stat_result]:
    path = Path(text)
    try:
        resolved = Path(os.path.realpath(path))
        return resolved, resolved.stat()
    except PermissionError:
        raise StagingRejectedError(
            "it cannot be reached (permission denied). Check the permissions of the folders above it."
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise StagingRejectedError("it is, or is below, a loop of symlinks. Fix the links.") from None
        scheme = find_remote_scheme(text)
        if scheme:
            raise StagingRejectedError(
                f"{scheme}: addresses are not supported, only local paths and hdfs://. Copy it to this machine, "
                "or let the program read it from there."
            ) from None
        if os.path.islink(path):
            raise StagingRejectedError(
                f"it is a link to {os.path.realpath(path)}, which does not exist. Fix the link."
            ) from None
        why = "" if isinstance(error, FileNotFoundError) else f" ({error})"
        raise StagingRejectedError(
            f"there is no such file or folder{why}. Check the path.{_describe_missing_part(path)}"
        ) from None


def _describe_missing_part(path: Path) -> str:
    """Name the existing folder on the path and the first missing part, if it is not the last."""
    for parent in path.parents:
        if os.path.isdir(parent):
            return (
                ""
                if parent == path.parent
                else f" {parent} exists, {path.relative_to(parent).parts[0]} in it does not."
            )
    return ""


def _require_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StagingRejectedError("it is a device, pipe or socket, neither a file nor a folder. Give a file.")
    if not os.access(path, os.R_OK):
        raise StagingRejectedError("it cannot be read (permission denied). Make it readable.")


def _require_program(path: Path) -> None:
    """Refuse a file that the kernel cannot execute, by its first bytes."""
    with path.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        interpreter = re.split(r"[ \t\n]", os.fsdecode(first[2:]).lstrip(" \t"))[0]  # a \r is part of the name
        if interpreter and not os.path.exists(interpreter):
            raise StagingRejectedError(f"its #! line names {interpreter}, which does not exist. Correct that line.")
    elif not first.startswith(b"\x7fELF"):
        raise StagingRejectedError(
            "it has execute permission, but is neither a Linux binary nor a script with a #! line."
        )


def _archive(path: Path, status: os.stat_result, otherwise: str) -> Format:
    _require_file(path, status)
    kind = detect(path)
    if kind is None:
        other = find_unsupported(path)
        what = f"a {other} archive, which is not supported" if other else "a file, but not an archive"
        raise StagingRejectedError(f"it is {what}. Supported are {KNOWN}, detected by content. {otherwise}")
    return kind


def _environment(folder: Path) -> str:
    """Return the interpreter of an environment that is a folder on this machine; used in place."""
    python = find_interpreter(folder)
    if os.path.isfile(python):
        return str(python)
    if os.path.islink(python):
        raise StagingRejectedError(
            f"it is an environment whose bin/{python.name} is a link to {os.path.realpath(python)}, which does not "
            "exist. Create the environment again."
        )
    raise StagingRejectedError(
        "it is a folder without bin/python, so not an environment. Give a venv, an archive or an interpreter."
    )
