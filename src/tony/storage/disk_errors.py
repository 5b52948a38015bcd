"""What a file system answered, said so that its reader can do something about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tony.errors import StorageError
from tony.units import format_size

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def explain_os_error(doing: str, folder: Path, needed: int | None = None) -> Iterator[None]:
    """Turns any OSError inside into a StorageError.

    Args:
        doing: what was tried, to stand after "cannot": `unpack env.tar.gz`.
        folder: where it was written.
        needed: bytes it takes in all, where that is known.

    Raises:
        StorageError: names the folder; for a full disk also the room that is needed and there.
    """
    try:
        yield
    except OSError as error:
        if error.filename and error.errno not in _FULL:
            raise StorageError(f"cannot {doing}: {error.strerror} ({error.filename}).") from error
        raise build_storage_error(doing, folder, error, needed) from error


def build_storage_error(doing: str, folder: Path, error: OSError, needed: int | None = None) -> StorageError:
    """Build the error for what a file system refused; the arguments are those of `explained`."""
    if error.errno in _FULL:
        return disk_full_error(doing, folder, needed, quota=error.errno == errno.EDQUOT)
    return StorageError(f"cannot {doing}: {error.strerror or error}.")


def require_room(doing: str, folder: Path, needed: int) -> None:
    """Refuses at once what cannot fit, rather than filling the disk first.

    Raises:
        StorageError: `folder` has less than `needed` bytes free.
    """
    if needed > room(folder):
        raise disk_full_error(doing, folder, needed)


def room(folder: Path) -> int:
    """Bytes that this user may still write at `folder`; it exists."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def disk_full_error(doing: str, folder: Path, needed: int | None, *, quota: bool = False) -> StorageError:
    """The error for a full disk."""
    wants = f"{format_size(needed)} are needed" if needed else "more is needed"
    why = "your disk quota is used up" if quota else f"{format_size(room(folder))} are free"
    return StorageError(
        f"cannot {doing}: no room in {folder}: {wants}, {why}. "
        "Free some room there, or set TONY_HOME to a folder on a bigger disk."
    )
