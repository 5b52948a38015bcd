"""Callbacks for changes of a folder or a file (inotify)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tony.linux.inotify import Inotify, InotifyMask

#: The last writer closed a file (or was killed), a file appeared or was removed; or the folder itself was removed.
_CHANGES = (
    InotifyMask.CLOSE_WRITE
    | InotifyMask.MOVED_TO
    | InotifyMask.DELETE
    | InotifyMask.DELETE_SELF
    | InotifyMask.MOVE_SELF
)

_OF_A_FILE = (
    InotifyMask.MODIFY | InotifyMask.CLOSE_WRITE | InotifyMask.ATTRIB | InotifyMask.DELETE_SELF | InotifyMask.MOVE_SELF
)


class FolderWatch:
    """Calls back on the running loop soon after a change in a folder.

    Raises:
        OSError: the user has no inotify watches left, or the folder does not exist.
    """

    def __init__(self, folder: Path, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._inotify = Inotify()
        try:
            self._add(folder)
        except OSError:
            self._inotify.close()
            raise
        self._loop.add_reader(self._inotify.descriptor, self._read)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._inotify.descriptor >= 0:
            self._loop.remove_reader(self._inotify.descriptor)
            self._inotify.close()

    def _add(self, folder: Path) -> None:
        self._inotify.add(folder, _CHANGES)

    def _read(self) -> None:
        if self._inotify.read():
            self._changed()


class DeparturesWatch(FolderWatch):
    """A `FolderWatch` that ignores new files."""

    def _add(self, folder: Path) -> None:
        self._inotify.add(folder, _CHANGES & ~InotifyMask.MOVED_TO)


class FileWatch(FolderWatch):
    """Calls back on the running loop soon after a file was written, closed by its last writer, or removed.

    Raises:
        OSError: the user has no inotify watches left, or the file does not exist or is not readable.
    """

    def _add(self, folder: Path) -> None:
        self._inotify.add_file(folder, _OF_A_FILE)
