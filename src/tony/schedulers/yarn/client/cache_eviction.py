"""Removes objects that have not been used for long from the cluster's cache."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.ipc.errors import FileMissingError, HadoopError

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: One day in milliseconds.
DAY = 24 * 3600 * 1000
#: Objects used within this time (milliseconds) are always kept.
KEPT = 30 * DAY
#: Folder in the cache for objects being removed; every eviction writes into it, so its time is that of the last one.
MARKER = ".evicted"
#: Allowance in milliseconds: a use is recorded once a day; the other day is for clock skew.
_CLOCK_MARGIN = 2 * DAY


def find_last_use(status: FileStatus) -> int:
    """Return when an object was last used: milliseconds since 1970, accurate to a day."""
    return max(status.modified_ms, status.accessed_ms)


def is_due(cached: Mapping[str, FileStatus], now_ms: float) -> bool:
    """Return True if the last eviction is more than a day ago, judging by the cache's content."""
    marker = cached.get(MARKER)
    return marker is None or marker.modified_ms < now_ms - DAY


def evict(files: WebHdfs, cache: str, used: Collection[str], oldest_live_ms: int | None) -> int:
    """Remove old objects; return how many.

    Args:
        cache: path of the folder.
        used: names of objects that have just been used.
        oldest_live_ms: when the oldest running application started; None if none runs.

    Raises:
        HadoopError: the file system refuses, or cannot be reached.
    """
    marker = f"{cache}/{MARKER}"
    aside = f"{marker}/{os.urandom(6).hex()}"
    files.make_directories(aside, 0o700)
    try:
        return _evict(files, cache, aside, used, oldest_live_ms)
    finally:
        now = files.get_status(aside).modified_ms
        for left in files.list(marker):
            if left.name == aside.rpartition("/")[2] or left.modified_ms < now - DAY:
                files.delete(f"{marker}/{left.name}", recursive=True)


def _evict(files: WebHdfs, cache: str, aside: str, used: Collection[str], oldest_live_ms: int | None) -> int:
    now = files.get_status(aside).modified_ms  # by the NameNode's clock, like all the others
    cached = {status.name: status for status in files.list(cache) if status.is_file}
    if not all(name in cached and find_last_use(cached[name]) > now - _CLOCK_MARGIN for name in used):
        return 0  # uses are not recorded: access times are disabled, or a clock is wrong
    limit = now - KEPT if oldest_live_ms is None else min(now - KEPT, oldest_live_ms - _CLOCK_MARGIN)
    old = [status.name for status in cached.values() if find_last_use(status) < limit]
    return sum(_remove(files, f"{cache}/{name}", f"{aside}/{name}", limit) for name in old)


def _remove(files: WebHdfs, path: str, aside: str, limit: int) -> bool:
    try:
        files.rename(path, aside)
        if find_last_use(files.get_status(aside)) < limit:
            return files.delete(aside)
    except FileMissingError:  # another client evicts, too
        return False
    try:
        files.rename(aside, path)
    except HadoopError:
        files.delete(aside)  # it has been uploaded again in the meantime
    return False
