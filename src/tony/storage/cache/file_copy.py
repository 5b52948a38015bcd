"""Copies files and whole folders as cheaply as the file system can."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from tony.storage.manifest import ManifestEntry, ManifestEntryKind

#: From linux/fs.h: makes the target share the source's blocks until one of them is written (btrfs, XFS, bcachefs).
_FICLONE = 0x40049409
#: Errors that mean: not supported by this file system, or not between these two places.
_CANNOT = (
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EPERM,
    errno.ETXTBSY,
)


class SourceChangedError(Exception):
    """The source does not match its manifest: truncated, missing, or of another size."""


def copy_file(source: str, target: str, *, mode: int, size: int, mtime: int | None = None) -> None:
    """Create `target`, a new file, with the content of `source`; the two share their blocks where that is possible.

    Args:
        size: expected size of the source.
        mtime: seconds since 1970; None leaves the time of copying.

    Raises:
        SourceChangedError: the source is missing or not `size` bytes long.
        OSError: the target cannot be written, or already exists.
    """
    try:
        origin = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SourceChangedError(source) from error
    try:
        if os.fstat(origin).st_size != size:
            raise SourceChangedError(source)
        # Never through a link or into an existing file: the content is private until it has its mode.
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_bytes(origin, copy, size, source)
            os.fchmod(copy, mode)
            if mtime is not None:
                os.utime(copy, (mtime, mtime))
        finally:
            os.close(copy)
    finally:
        os.close(origin)


def share_blocks(origin: int, copy: int) -> bool:
    """Have an empty file share the blocks of another one (descriptors); return False if that is not supported."""
    try:
        fcntl.ioctl(copy, _FICLONE, origin)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    return True


def _copy_bytes(origin: int, copy: int, size: int, source: str) -> None:
    left = size
    transfer: Callable[[int, int, int], int] = os.copy_file_range  # shares blocks where the file system can
    while left:
        try:
            done = transfer(origin, copy, left)
        except OSError as error:
            if transfer is _send_bytes or error.errno not in _CANNOT:
                raise
            transfer = _send_bytes
            continue
        if not done:
            raise SourceChangedError(source)
        left -= done


def _send_bytes(origin: int, copy: int, count: int) -> int:
    return os.sendfile(copy, origin, None, count)


def copy_folder(content: Path, entries: Iterable[ManifestEntry], target: Path) -> None:
    """Copy a folder according to its manifest into `target`, which exists.

    Existing files in the way of an entry are replaced, so copying again repairs an incomplete copy; other files in
    existing folders are kept.

    Raises:
        SourceChangedError: `content` does not match `entries`.
        OSError: `target` cannot be written.
    """
    folders = []
    for entry in entries:
        place = f"{target}/{entry.path}"
        if entry.kind is ManifestEntryKind.FOLDER:
            _make_folder(place)
            folders.append((place, entry.mode))
        elif entry.kind is ManifestEntryKind.LINK:
            clear(place)
            os.symlink(entry.target, place)
        else:
            origin = f"{content}/{entry.path}"
            try:
                copy_file(origin, place, mode=entry.mode, size=entry.size, mtime=entry.mtime)
            except FileExistsError:
                clear(place)
                copy_file(origin, place, mode=entry.mode, size=entry.size, mtime=entry.mtime)
    for place, mode in reversed(folders):  # last: a read-only folder could not be filled
        os.chmod(place, mode)


def clear(place: str | Path) -> None:
    """Remove a file, link or folder if it exists; never the target of a link."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(place).st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        remove_tree(Path(place))
    else:
        os.unlink(place)


def remove_tree(folder: Path) -> None:
    """Remove a folder, including read-only folders in it; do nothing if it does not exist.

    Raises:
        OSError: something in it cannot be removed.
    """
    import shutil  # late: it loads every compression module

    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        os.chmod(folder, 0o700)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                if not os.path.islink(subfolder := os.path.join(place, name)):
                    os.chmod(subfolder, 0o700)
        shutil.rmtree(folder)


def _make_folder(place: str) -> None:
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            os.unlink(place)
            os.mkdir(place, 0o700)
