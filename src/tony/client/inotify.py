"""Waking up when something happens in a folder, instead of looking again and again.

The kernel's inotify, through ctypes. Where it cannot be had (a user's number of watches is limited, and a network file
system does not tell of other hosts' writes), waiting ends after a short while at the latest, so that nothing is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Self

_MODIFY = 0x00000002
_CLOSE_WRITE = 0x00000008
_MOVED_TO = 0x00000080
_CREATE = 0x00000100
_Q_OVERFLOW = 0x00004000
_IGNORED = 0x00008000
_HEADER = struct.Struct("iIII")
_BUFFER = 65536
#: Seconds between two looks where the kernel does not wake us.
LOOK_AGAIN = 0.5


class FolderWatch:
    """Tells which files of some folders changed since it was asked last.

    A context manager. Folders added before they are read miss nothing: a change between two reads stays noted.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folders: dict[int, Path] = {}
        self._blind = self._descriptor < 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the watch back to the kernel; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def add(self, folder: Path) -> None:
        """Watches the files directly in `folder`, which must exist."""
        mask = _MODIFY | _CLOSE_WRITE | _MOVED_TO | _CREATE
        number = -1 if self._blind else self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask)
        if number < 0:
            self._blind = True
        else:
            self._folders[number] = folder

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Waits until a file changed; answers which ones, or None for "look at all of them"."""
        if self._blind:
            await asyncio.sleep(LOOK_AGAIN)
            return None
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return self.changed()

    def changed(self) -> AbstractSet[Path] | None:
        """What changed since the last call, without waiting; None for "look at all of them"."""
        if self._blind:
            return None
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._descriptor, _BUFFER)
        changed: set[Path] = set()
        offset = 0
        while offset < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, offset)
            name = data[offset + _HEADER.size : offset + _HEADER.size + length].rstrip(b"\0")
            offset += _HEADER.size + length
            if mask & _Q_OVERFLOW:
                return None
            if not mask & _IGNORED and name:
                changed.add(self._folders[number] / os.fsdecode(name))
        return changed
