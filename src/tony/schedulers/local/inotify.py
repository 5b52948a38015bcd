"""Being told by the kernel that something in a folder changed, on an event loop."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_IN_CLOSE_WRITE = 0x8
_IN_MOVED_TO = 0x80
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_ONLYDIR = 0x1000000
#: A file's last writer is gone (killed, too), one appeared, one was removed; or the folder itself went.
_EVENTS = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR

_libc = ctypes.CDLL(None, use_errno=True)
_libc.inotify_init1.argtypes = (ctypes.c_int,)
_libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)


class FolderWatch:
    """Calls back, on the running loop, soon after something changed in a folder.

    Raises:
        OSError: the kernel has no more watches for this user, or the folder is gone.
    """

    def __init__(self, folder: Path, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            _checked(_libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _EVENTS))
        except OSError:
            os.close(self._descriptor)
            raise
        self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Stops watching. May be called twice."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        try:
            os.read(self._descriptor, 64 * 1024)
        except BlockingIOError:
            return
        self._changed()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
