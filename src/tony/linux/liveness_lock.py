"""A lock on a file that shows that a process is alive: released when the last process that shares it exits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

#: Number of tries and seconds between them: a process that only checks the lock holds it for a moment.
_MAX_TRIES = 50
_PAUSE_SECONDS = 0.02
#: Locks of this process and of its ancestors: file -> descriptor, and the process that took it.
_held: dict[Path, tuple[int, int]] = {}


def take(path: Path) -> bool:
    """Take the lock, creating the file if needed; return False if another process holds it.

    A fork shares the lock of its parent.
    """
    if path in _held:
        return True
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(_MAX_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _held[path] = lock, os.getpid()
            return True
        time.sleep(_PAUSE_SECONDS)
    os.close(lock)
    return False


@contextlib.contextmanager
def try_lock(path: Path, *, create: bool = True) -> Iterator[bool]:
    """Try to hold the lock of a file inside the block; yield True if it is held, False if another process holds it.

    Args:
        create: create the file if needed.

    Raises:
        OSError: the file cannot be opened.
    """
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def is_held(path: Path) -> bool:
    """Return True if a process holds the lock of a file.

    Raises:
        OSError: the file cannot be opened.
    """
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return is_locked(lock)
    finally:
        os.close(lock)


def is_locked(descriptor: int) -> bool:
    """Return True if a process holds the lock of an open file; otherwise share the lock until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def release_lock(path: Path) -> None:
    """Release this process's share of the lock."""
    if path in _held:
        os.close(_held.pop(path)[0])


def lock_owner(path: Path) -> int | None:
    """Return the process that took the lock held here: this one or an ancestor; None if it is not held."""
    return _held[path][1] if path in _held else None
