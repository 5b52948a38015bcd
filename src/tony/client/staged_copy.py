"""The staged objects of an earlier job, submitted again: from the cache, or from what the job directory keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tony.linux.disk_errors import explain_os_error
from tony.model.staged_files import Placement, StagedItem, StagedJob
from tony.model.state_directory import Home, JobFolder
from tony.storage.cache.object_cache import Cache


@dataclass(frozen=True, slots=True)
class StagedCopy:
    """What an earlier job has staged.

    Attributes:
        staged: its staged objects.
        folder: its job directory.
    """

    staged: StagedJob
    folder: JobFolder

    def find_missing(self, home: Home) -> list[str]:
        """Return the names of objects that are neither in the cache nor in the job directory."""
        cache = Cache(home.cache)
        return [
            "source" if item.placement is Placement.ROOT else item.name
            for item in self._list_items()
            if not cache.has(item.digest, item.size) and not _has_size(self._find_kept(item), item.size)
        ]

    def link(self, home: Home, folder: JobFolder) -> StagedJob:
        """Link the objects from the directory of a new job, and add to the cache those that it lacks.

        Raises:
            StorageError: a local file system failed.
        """
        cache = Cache(home.cache)
        cache.prepare()
        with explain_os_error(f"write {folder.staged}", folder.path):
            folder.staged.mkdir(mode=0o700, parents=True, exist_ok=True)
            for item in self._list_items():
                if not cache.has(item.digest, item.size):
                    cache.take(item.digest, self._find_kept(item))
                cache.link(item.digest, folder.staged)
        return self.staged

    def _list_items(self) -> Iterator[StagedItem]:
        """Yield each object once; without those that are in the cluster's file system."""
        items = {item.digest: item for role in self.staged.roles.values() for item in role.items}
        return (item for item in items.values() if item.in_place is None)

    def _find_kept(self, item: StagedItem) -> Path:
        return self.folder.staged / item.digest


def _has_size(path: Path, size: int) -> bool:
    try:
        return os.lstat(path).st_size == size
    except OSError:
        return False
