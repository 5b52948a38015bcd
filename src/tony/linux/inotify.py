"""The kernel's inotify through ctypes: notification of changes in a folder (inotify(7))."""

from __future__ import annotations

import ctypes
import os
import struct
from enum import IntFlag
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct("iIII")
_BUFFER = 65536
_ONLY_FOLDERS = 0x01000000


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
        self._folders: dict[int, Path] = {}
        self.descriptor = -1
        self.descriptor = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, folder: Path, changes: InotifyMask) -> None:
        """Watch the files directly in `folder`, and the folder itself.

        Raises:
            OSError: there is no such folder, or this user may have no more watches (`fs.inotify.max_user_watches`).
        """
        number = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), int(changes | _ONLY_FOLDERS))
        self._folders[_checked(number)] = folder

    def add_file(self, file: Path, changes: InotifyMask) -> None:
        """Watch one file, even if it is renamed.

        Raises:
            OSError: as for `add`; or the file may not be read.
        """
        number = self._libc.inotify_add_watch(self.descriptor, os.fsencode(file), int(changes))
        self._folders[_checked(number)] = file

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
            folder = self._folders.get(number)
            happened.append(InotifyEvent(folder / os.fsdecode(name) if folder and name else folder, change))
        return happened

    def close(self) -> None:
        """Close the queue; may be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
