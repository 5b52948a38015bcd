"""Waking up when something happens in a folder, instead of looking again and again.

Where the kernel cannot tell (a user's number of watches is limited, and a network file system does not tell of other
hosts' writes), waiting ends after a short while at the latest, so that nothing is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Self

from tony.linux.inotify import Inotify, InotifyMask

_CHANGES = InotifyMask.MODIFY | InotifyMask.CLOSE_WRITE | InotifyMask.MOVED_TO | InotifyMask.CREATE
#: Seconds between two looks where the kernel does not wake us.
LOOK_AGAIN = 0.5


class FolderWatch:
    """Tells which files of some folders changed since it was asked last.

    A context manager. Folders added before they are read miss nothing: a change between two reads stays noted.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
        except OSError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the watch back to the kernel; may be called twice."""
        if self._inotify:
            self._inotify.close()

    def add(self, folder: Path) -> None:
        """Watches the files directly in `folder`, which must exist."""
        if self._inotify is None:
            return
        try:
            self._inotify.add(folder, _CHANGES)
        except OSError:
            self._inotify.close()
            self._inotify = None

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Waits until a file changed; answers which ones, or None for "look at all of them"."""
        if self._inotify is None:
            await asyncio.sleep(LOOK_AGAIN)
            return None
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._inotify.descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._inotify.descriptor)
        return self.changed()

    def changed(self) -> AbstractSet[Path] | None:
        """What changed since the last call, without waiting; None for "look at all of them"."""
        if self._inotify is None:
            return None
        happened = self._inotify.read()
        if any(change & InotifyMask.OVERFLOW for _, change in happened):
            return None
        return {path for path, change in happened if path and not change & InotifyMask.IGNORED}
