"""Wait for changes in folders with inotify instead of polling.

Where inotify does not work (a user's number of watches is limited; network file systems do not report writes of other
hosts), each wait ends after a short time, so that no change is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Self

from tony.linux.inotify import Inotify, InotifyMask

_CHANGES = InotifyMask.MODIFY | InotifyMask.CLOSE_WRITE | InotifyMask.MOVED_TO | InotifyMask.CREATE
#: Seconds between polls if inotify does not work.
LOOK_AGAIN = 0.5


class FolderWatch:
    """Reports changed files in some folders. A context manager.

    Add a folder before reading its files: changes between two reads are queued, so that none is missed.
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
        """Release the inotify descriptor. May be called twice."""
        if self._inotify:
            self._inotify.close()

    def add(self, folder: Path) -> None:
        """Watch the files directly in `folder`, which must exist."""
        if self._inotify is None:
            return
        try:
            self._inotify.add(folder, _CHANGES)
        except OSError:
            self._inotify.close()
            self._inotify = None

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Wait for a change; return the changed files, or None if any file may have changed."""
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
        """Return the files changed since the last call, without waiting; None if any file may have changed."""
        if self._inotify is None:
            return None
        happened = self._inotify.read()
        if any(change & InotifyMask.OVERFLOW for _, change in happened):
            return None
        return {path for path, change in happened if path and not change & InotifyMask.IGNORED}
