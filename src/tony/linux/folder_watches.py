"""Changes of folders, announced to many tasks of one event loop through a single inotify queue.

A user may have few queues (`fs.inotify.max_user_instances`), and the application masters and executors need theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tony.linux.inotify import WRITES, Inotify, InotifyMask


@dataclass(eq=False, slots=True)
class FolderWatch:
    """One task's watch of some folders.

    Attributes:
        matches: returns True for the name of a file whose changes count.
        changed: set when such a file was written or has appeared.
        works: False if changes are not announced: a folder does not exist, or inotify does not work.
    """

    matches: Callable[[str], bool]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    works: bool = True


class FolderWatches:
    """The watches of one event loop."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._watches: dict[Path, list[FolderWatch]] = {}

    @contextmanager
    def watch(self, folders: Collection[Path], matches: Callable[[str], bool]) -> Iterator[FolderWatch]:
        """Watch folders and the files directly in them, as long as the context lasts.

        Read the files after the context was entered: then no change is missed.
        """
        watch = FolderWatch(matches)
        added: list[Path] = []
        try:
            for folder in folders:
                try:
                    self._add(folder, watch)
                    added.append(folder)
                except OSError:
                    watch.works = False
            yield watch
        finally:
            for folder in added:
                self._remove(folder, watch)

    def _add(self, folder: Path, watch: FolderWatch) -> None:
        if self._inotify is None:
            self._inotify = Inotify()
            asyncio.get_running_loop().add_reader(self._inotify.descriptor, self._announce)
        try:
            if folder not in self._watches:
                self._inotify.add(folder, WRITES)
            self._watches.setdefault(folder, []).append(watch)
        finally:
            self._close_unused()

    def _remove(self, folder: Path, watch: FolderWatch) -> None:
        self._watches[folder].remove(watch)
        if not self._watches[folder]:
            del self._watches[folder]
            if self._inotify is not None:
                self._inotify.remove(folder)
        self._close_unused()

    def _close_unused(self) -> None:
        if self._inotify is not None and not self._watches:
            asyncio.get_running_loop().remove_reader(self._inotify.descriptor)
            self._inotify.close()
            self._inotify = None

    def _announce(self) -> None:
        assert self._inotify is not None
        for path, change in self._inotify.read():
            if change & InotifyMask.OVERFLOW:
                watches = [watch for same in self._watches.values() for watch in same]
            elif path is None:  # of a folder that is no longer watched
                continue
            elif change & InotifyMask.IGNORED:  # the folder was removed
                watches = self._watches.get(path, [])
            else:
                watches = [each for each in self._watches.get(path.parent, ()) if each.matches(path.name)]
            for watch in watches:
                watch.changed.set()
