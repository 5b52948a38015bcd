"""The kernel's inotify through ctypes: notification of changes in a folder (inotify(7)).

`ChangeWatch` waits for changes, and for some time where inotify does not work; `Inotify` is the bare queue.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Set as AbstractSet
from enum import IntFlag
from pathlib import Path
from typing import NamedTuple, Self

_HEADER = struct.Struct("iIII")
_BUFFER = 65536


class InotifyMask(IntFlag):
    """Kinds of changes, with the kernel's numbers."""

    MODIFY = 0x00000002
    ATTRIB = 0x00000004  #: a file was unlinked, or its owner, mode or times changed
    CLOSE_WRITE = 0x00000008  #: a file's last writer closed it, or was killed
    MOVED_TO = 0x00000080
    CREATE = 0x00000100
    DELETE = 0x00000200
    DELETE_SELF = 0x00000400
    MOVE_SELF = 0x00000800
    OVERFLOW = 0x00004000  #: the kernel's queue was full: anything may have happened
    IGNORED = 0x00008000  #: a watch ended because its folder was removed


#: A file in the folder was written or has appeared.
WRITES = InotifyMask.MODIFY | InotifyMask.CLOSE_WRITE | InotifyMask.MOVED_TO | InotifyMask.CREATE
#: Seconds between polls if inotify does not work.
POLL_SECONDS = 0.5


class InotifyEvent(NamedTuple):
    """One change. `path` is the file, or the watched folder when no file is named."""

    path: Path | None
    change: int


class Inotify:
    """One queue of changes. Never blocks: read when `descriptor` is readable.

    Raises:
        OSError: this user may have no more queues (`fs.inotify.max_user_instances`).
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, Path] = {}
        self.descriptor = -1
        self.descriptor = _check_result(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, path: Path, changes: InotifyMask) -> None:
        """Watch a folder and the files directly in it, or one file, even if it is renamed.

        Raises:
            OSError: it is not there or may not be read, or this user may have no more watches
                (`fs.inotify.max_user_watches`).
        """
        number = self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), int(changes))
        self._paths[_check_result(number)] = path

    def remove(self, path: Path) -> None:
        """Watch a folder or file no longer."""
        for number in [number for number, watched in self._paths.items() if watched == path]:
            del self._paths[number]
            self._libc.inotify_rm_watch(self.descriptor, number)  # fails if the folder was removed

    def read(self) -> list[InotifyEvent]:
        """Return the changes since the last call."""
        try:
            data = os.read(self.descriptor, _BUFFER)
        except BlockingIOError:
            return []
        happened = []
        offset = 0
        while offset + _HEADER.size <= len(data):
            number, change, _, length = _HEADER.unpack_from(data, offset)
            name = data[offset + _HEADER.size : offset + _HEADER.size + length].rstrip(b"\0")
            offset += _HEADER.size + length
            folder = self._paths.get(number)
            happened.append(InotifyEvent(folder / os.fsdecode(name) if folder and name else folder, change))
        return happened

    def close(self) -> None:
        """Close the queue; may be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ChangeWatch:
    """Reports changes of files and folders. A context manager.

    Add a folder before reading its files: changes between two reads are queued, so that none is missed.

    Where inotify does not work (a user's number of watches is limited; network file systems do not report writes of
    other hosts), each wait ends after a short time, so that no change is missed.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
        except OSError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the inotify descriptor. May be called twice."""
        if self._inotify:
            self._inotify.close()

    def add(self, path: Path, changes: InotifyMask = WRITES) -> None:
        """Watch a folder and the files directly in it, or one file, even if it is renamed. It must exist."""
        if self._inotify is None:
            return
        try:
            self._inotify.add(path, changes)
        except OSError:
            self._inotify.close()
            self._inotify = None

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Wait for a change; return the changed files, or None if any file may have changed."""
        import asyncio  # late: those who read what has ended do not wait

        if self._inotify is None:
            await asyncio.sleep(POLL_SECONDS)
            return None
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._inotify.descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._inotify.descriptor)
        return self.take_changes()

    def take_changes(self) -> AbstractSet[Path] | None:
        """Return the files changed since the last call, without waiting; None if any file may have changed."""
        if self._inotify is None:
            return None
        happened = self._inotify.read()
        if any(change & InotifyMask.OVERFLOW for _, change in happened):
            return None
        return {path for path, change in happened if path and not change & InotifyMask.IGNORED}


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
