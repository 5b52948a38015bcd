"""A lock on a file that shows that a process is alive: released when the last process that shares it exits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
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


def release_lock(path: Path) -> None:
    """Release this process's share of the lock."""
    if path in _held:
        os.close(_held.pop(path)[0])


def lock_owner(path: Path) -> int | None:
    """Return the process that took the lock held here: this one or an ancestor; None if it is not held."""
    return _held[path][1] if path in _held else None
