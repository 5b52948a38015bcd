"""Turns errors of a file system into messages that say what to do, and refuses at once what cannot fit on a disk."""

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
    """Turn any OSError inside the block into a StorageError.

    Args:
        doing: the action, to follow "cannot": `unpack env.tar.gz`.
        folder: where it was written.
        needed: bytes needed in all, if known.

    Raises:
        StorageError: names the folder; for a full disk also the required and the available space.
    """
    try:
        yield
    except OSError as error:
        if error.filename and error.errno not in _FULL:
            raise StorageError(f"cannot {doing}: {error.strerror} ({error.filename})") from error
        raise build_storage_error(doing, folder, error, needed) from error


def build_storage_error(doing: str, folder: Path, error: OSError, needed: int | None = None) -> StorageError:
    """Return the error for an OSError; the arguments are those of `explain_os_error`."""
    if error.errno in _FULL:
        return build_disk_full_error(doing, folder, needed, quota=error.errno == errno.EDQUOT)
    return StorageError(f"cannot {doing}: {error.strerror or error}")


def require_free_space(doing: str, folder: Path, needed: int) -> None:
    """Refuse at once what cannot fit, rather than filling the disk first.

    Raises:
        StorageError: `folder` has less than `needed` bytes free.
    """
    if needed > measure_free_bytes(folder):
        raise build_disk_full_error(doing, folder, needed)


def measure_free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write at `folder`, which must exist."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def build_disk_full_error(doing: str, folder: Path, needed: int | None, *, quota: bool = False) -> StorageError:
    """Return the error for a full disk."""
    wants = f"{format_size(needed)} needed" if needed else "more space needed"
    why = "your disk quota is exhausted" if quota else f"{format_size(measure_free_bytes(folder))} free"
    return StorageError(
        f"cannot {doing}: not enough disk space in {folder}: {wants}, {why}. "
        "Free some space there, or set TONY_HOME to a folder on a larger disk."
    )
