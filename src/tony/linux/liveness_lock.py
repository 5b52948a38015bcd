"""A lock that says "I live": on a file, held until the last of those who share it has ended, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

#: How often, and after how many seconds each time, to ask again: who only looks whether we live holds it for a moment.
_TRIES, _PAUSE = 50, 0.02
#: Of this process and of those it was forked from: file -> descriptor, and the process that took it.
_held: dict[Path, tuple[int, int]] = {}


def take(path: Path) -> bool:
    """Takes the lock, and makes the file if there is none; False if somebody else lives.

    A fork shares what it was forked with: it has the lock as well.
    """
    if path in _held:
        return True
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _held[path] = lock, os.getpid()
            return True
        time.sleep(_PAUSE)
    os.close(lock)
    return False


def release_lock(path: Path) -> None:
    """Gives it back, as far as this process is concerned."""
    if path in _held:
        os.close(_held.pop(path)[0])


def lock_owner(path: Path) -> int | None:
    """Who took the lock that we hold: ourselves, or a process that we were forked from; None if we hold none."""
    return _held[path][1] if path in _held else None
