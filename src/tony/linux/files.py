"""Files: opened although another user may have placed them there, read from their end, replaced atomically."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Not blocking: opening a pipe would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_file(path: str | os.PathLike[str], folder: int | None = None, owner: int | None = None) -> int:
    """Return a descriptor of a regular file that another user may have placed there, without waiting for a pipe.

    Args:
        folder: descriptor of the folder to which `path` is relative.
        owner: the user whose file it must be.

    Raises:
        OSError: there is none; a link, a pipe or a device does not count.
    """
    try:
        descriptor = os.open(path, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        _check_owner(status, owner)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_folder(start: str | int, names: Sequence[str] = (), owner: int | None = None, *, make: bool = False) -> int:
    """Return a new descriptor of a folder below another one.

    Each folder is opened by itself, relative to the descriptor of the one above it. So one that another user replaces
    by a link in the meantime is not followed either.

    Args:
        start: the folder from which the walk begins: its path, in which links are followed, or its descriptor.
        names: of the folders below it, one after the other.
        owner: the user that each of these must belong to.
        make: create missing ones, accessible to their owner only.

    Raises:
        OSError: there is none; a link does not count.
    """
    folder = os.dup(start) if isinstance(start, int) else os.open(start, _FOLDER)
    try:
        for name in names:
            if make:
                try:
                    os.mkdir(name, 0o700, dir_fd=folder)
                except FileExistsError:
                    pass
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
            _check_owner(os.fstat(folder), owner)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _check_owner(status: os.stat_result, owner: int | None) -> None:
    if owner not in (None, status.st_uid):
        raise PermissionError(errno.EPERM, "it belongs to another user than the job directory")


def is_changed_by_root_only(path: str) -> bool:
    """Return True if only root can change or replace a file.

    The file and every folder above it must belong to root, and no other user may write to them. In a sticky folder such
    as `/tmp` other users may create files, but can neither rename nor remove one of root's.

    Args:
        path: absolute, without symbolic links.
    """
    target = Path(path)
    try:
        statuses = [target.lstat(), *(folder.lstat() for folder in target.parents)]
    except OSError:
        return False
    return all(_is_protected(status) for status in statuses)


def _is_protected(status: os.stat_result) -> bool:
    if status.st_uid != 0 or stat.S_ISLNK(status.st_mode):
        return False
    is_sticky_folder = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    return is_sticky_folder or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read_tail(path: Path, most: int) -> bytes:
    """Return the last bytes of a file, at most `most`; more if it grows meanwhile.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most))
        return file.read()


def replace_file(path: Path, content: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
    """Write a file under a hidden name next to `path`, and rename it: a reader sees all of the old content or the new.

    Args:
        durable: fsync, so that not even a power failure leaves an empty file.

    Raises:
        OSError: it cannot be written; the old file stays.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            if durable:
                file.flush()
                os.fsync(descriptor)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
