"""What a job's keys ask to be staged, looked at on this machine before anything is read or written."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from tony.config.paths import is_archive
from tony.dataclass import dataclass
from tony.model.staged import Placement, StagedItem
from tony.storage import cache_store
from tony.storage.archive_format import KNOWN, Format, detect, unsupported
from tony.storage.file_entries import FileEntry, remote_scheme
from tony.storage.folder_scan import Scan, scan
from tony.storage.object_cache import Cache, Stored
from tony.storage.python_interpreters import missing_python_error, prefix_in
from tony.storage.remote_files import RemoteFile, RemoteFiles
from tony.storage.symlink_resolution import MAX_FOLLOWED, resolve

if TYPE_CHECKING:
    from tony.storage.unpack import Contents


class StagingRejectedError(ValueError):
    """What was asked for cannot be staged; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagingRequest:
    """One thing to stage. Each is itself: two that look alike were asked for twice.

    Attributes:
        path: absolute, links followed; of a remote file its address.
        name: what it is called in the task's working directory, and in messages.
        format: of an archive that will be unpacked.
        scan: of a folder.
        git: a folder's `.gitignore` counts.
        without: what is left out of a folder.
        mode: permission bits of a single file.
        remote: it lies in a cluster's file system.
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
        """Bytes of a single file; 0 if it is gone, which is told when it is packed."""
        if self.remote:
            return self.remote.size
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


def source(text: str, without: Collection[str], *, git: bool = True) -> StagingRequest:
    """The job's source: a folder or an archive.

    Args:
        git: a folder's `.gitignore` counts.

    Raises:
        Refused: it is neither.
    """
    path, status = _existing(text)
    name = path.name or "source"
    if stat.S_ISDIR(status.st_mode):
        found = scan(path, git=git, without=without)
        return StagingRequest(path=path, name=name, placement=Placement.ROOT, scan=found, git=git, without=without)
    kind = _archive(path, status, "Give the folder it is in, or name it under `files`.")
    return StagingRequest(path=path, name=name, placement=Placement.ROOT, format=kind)


def file(entry: FileEntry, without: Collection[str]) -> StagingRequest:
    """One of a job's or role's files. A folder is laid down as a folder.

    Somebody who names a folder wants what is in it: `.gitignore` does not count there, only `.tonyignore`.

    Raises:
        Refused: it is not there, or is to be unpacked and is no archive.
    """
    path, status = _existing(entry.path)
    if stat.S_ISDIR(status.st_mode):
        found = scan(path, git=False, without=without)
        return StagingRequest(path=path, name=entry.name, placement=Placement.FOLDER, scan=found, without=without)
    if entry.unpack:
        kind = _archive(path, status, "Leave #archive off to have it as it is.")
        return StagingRequest(path=path, name=entry.name, placement=Placement.FOLDER, format=kind)
    _require_file(path, status)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return StagingRequest(path=path, name=entry.name, placement=Placement.FILE, mode=mode)


def python(text: str, *, same_host: bool) -> StagingRequest | str:
    """A job's Python: an archive to be staged, or the path (or name) of an interpreter on the nodes.

    Args:
        same_host: tasks run on this machine, so an interpreter must be here.

    Raises:
        Refused: it is none of these.
    """
    if "/" not in text:
        return text
    try:
        path, status = _existing(text)
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
    other = unsupported(path)
    if other or not os.access(path, os.X_OK):
        what = f"a {other} archive" if other else "no archive that can be unpacked, and not executable"
        raise StagingRejectedError(
            f"it is {what}. Give a {KNOWN} archive of a venv or from conda-pack, or an interpreter's path."
        )
    _require_program(path)
    return os.path.abspath(text)  # links not followed: beside a venv's link lies the venv


def store(
    wish: StagingRequest, cache: Cache, *, same_host: bool, files: RemoteFiles | None = None
) -> tuple[StagedItem, Stored]:
    """Puts what a wish names into the cache.

    Args:
        files: where remote ones are.

    Raises:
        ArchiveError: it is an archive that could not be unpacked.
        Refused: it is an archive without a Python that could work here.
        FileChangedError: it is being changed.
        StorageError: the file system says no.
        TonyError: the other file system does not answer.
        ValueError: a remote file may not be read, or is gone.
    """
    if wish.scan is not None:
        stored = cache_store.store_folder(
            cache, wish.scan, lambda: scan(wish.path, git=wish.git, without=wish.without), wish.name
        )
    else:
        far = wish.remote and files and cache_store.store_remote_file(cache, wish.remote, files)
        stored = far or cache_store.file(cache, wish.path, wish.name)
        if wish.format is not None:
            _require_sound(wish, wish.format, cache, stored, same_host=same_host)
    kind = Format.TAR if wish.scan is not None else wish.format
    item = StagedItem(
        digest=stored.digest,
        size=stored.size,
        name=wish.name,
        placement=wish.placement,
        suffix=kind.value if kind else "",
        mode=wish.mode,
    )
    return item, stored


def _require_sound(wish: StagingRequest, kind: Format, cache: Cache, stored: Stored, *, same_host: bool) -> None:
    """Reads an archive to its end, once per content and use: a damaged one is refused before the job has begun."""
    if cache_store.is_checked(cache, wish.path, stored.digest, wish.placement.value):
        return
    is_python = wish.placement is Placement.PYTHON
    try:
        from tony.storage.unpack import check  # with every compressor

        contents = check(cache.object(stored.digest), kind, wish.path.name, outside_links=is_python)
        if is_python:
            _require_python(contents, wish.path.name, same_host=same_host)
    except BaseException:
        if not stored.reused:
            cache.object(stored.digest).unlink(missing_ok=True)
        raise
    cache_store.set_checked(cache, wish.path, stored.digest, wish.placement.value)


def _require_python(contents: Contents, name: str, *, same_host: bool) -> None:
    prefix = prefix_in(contents.kinds)
    if prefix is None:
        raise StagingRejectedError(missing_python_error(name))
    base = _base_interpreter(contents, f"{prefix}/bin/python".lstrip("/"))
    if same_host and base is not None and not os.path.exists(base):
        raise StagingRejectedError(
            f"its bin/python is a link to {base}, which is not on this machine. A venv borrows the Python it was made "
            "with: install that, or pack the environment with conda-pack, which brings its own."
        )


def _base_interpreter(contents: Contents, python: str) -> str | None:
    """The absolute path that an environment's `python` is a link to, if it is one."""
    path = python if python in contents.kinds else f"{python}3"
    for _ in range(MAX_FOLLOWED):
        target = contents.links.get(path)
        if target is None or target.startswith("/"):
            return target
        path = resolve(path, target, {}) or ""
    return None


def _existing(text: str) -> tuple[Path, os.stat_result]:
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
            raise StagingRejectedError("it is a loop of links, or behind one. Mend the links.") from None
        scheme = remote_scheme(text)
        if scheme:
            raise StagingRejectedError(
                f"addresses ({scheme}:...) cannot be read here, only paths of this machine and hdfs://. Copy it here, "
                "or let the program read it from there."
            ) from None
        if os.path.islink(path):
            raise StagingRejectedError(
                f"it is a link to {os.path.realpath(path)}, which does not exist. Mend the link."
            ) from None
        why = "" if isinstance(error, FileNotFoundError) else f" ({error})"
        raise StagingRejectedError(f"there is no such file or folder{why}. Check the path.{_nearest(path)}") from None


def _nearest(path: Path) -> str:
    """Names the folder where the way ends, when it ends before the last step."""
    for parent in path.parents:
        if os.path.isdir(parent):
            return "" if parent == path.parent else f" {parent} is there, {path.relative_to(parent).parts[0]} is not."
    return ""


def _require_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StagingRejectedError("it is neither a file nor a folder (but a device, pipe or socket). Give a file.")
    if not os.access(path, os.R_OK):
        raise StagingRejectedError("it cannot be read (permission denied). Make it readable for you.")


def _require_program(path: Path) -> None:
    """As the kernel tells programs from other files: by their first bytes."""
    with path.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        interpreter = re.split(r"[ \t\n]", os.fsdecode(first[2:]).lstrip(" \t"))[0]  # a \r is part of the name
        if interpreter and not os.path.exists(interpreter):
            raise StagingRejectedError(f"its first line names {interpreter}, which does not exist. Mend that line.")
    elif not first.startswith(b"\x7fELF"):
        raise StagingRejectedError(
            "it is executable, but no program: it is no binary of Linux, and has no first line with #!."
        )


def _archive(path: Path, status: os.stat_result, otherwise: str) -> Format:
    _require_file(path, status)
    kind = detect(path)
    if kind is None:
        other = unsupported(path)
        what = f"a {other} archive, which cannot be unpacked" if other else "a file, but no archive"
        raise StagingRejectedError(f"it is {what}. Archives are {KNOWN}, told by content. {otherwise}")
    return kind


def _environment(folder: Path) -> str:
    """The interpreter of an environment that is a folder on this machine; used in place."""
    python = folder / "bin" / "python"
    if not os.path.lexists(python):
        python = folder / "bin" / "python3"
    if os.path.isfile(python):
        return str(python)
    if os.path.islink(python):
        raise StagingRejectedError(
            f"it is an environment whose bin/{python.name} is a link to {os.path.realpath(python)}, which does not "
            "exist. Make the environment again."
        )
    raise StagingRejectedError(
        "it is a folder without bin/python, so no environment. Give a venv, an archive or an interpreter."
    )
