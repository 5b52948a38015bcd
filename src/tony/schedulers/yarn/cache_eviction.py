"""Removes from the cluster's cache what was not used for long, and never what a live application uses.

Who submits a job that needs an object notes so in its access time, if what is there is older than a day. So of
everything that an application uses the last use is at most a day before its start, and what was last used before the
oldest live application started, with some room for clocks that differ, none of them can use.

The one who removes moves an object out of the way first and looks at it again: who noted a use before that keeps it,
and who wants to do so afterwards finds it gone and sends it again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.ipc.errors import FileMissingError, HadoopError

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Milliseconds.
DAY = 24 * 3600 * 1000
#: What was used within this time stays in any case.
KEPT = 30 * DAY
#: Folder in the cache, where things are on their way out: something is put into it whenever somebody looks.
MARKER = ".evicted"
#: A use is noted once a day; and as much for clocks that differ.
_ROOM = 2 * DAY


def last_use(status: FileStatus) -> int:
    """When an object was used for the last time: milliseconds since 1970, give or take a day."""
    return max(status.modified_ms, status.accessed_ms)


def is_due(there: Mapping[str, FileStatus], now_ms: float) -> bool:
    """Whether nobody has looked for a day, by what lies in the cache."""
    marker = there.get(MARKER)
    return marker is None or marker.modified_ms < now_ms - DAY


def evict(files: WebHdfs, cache: str, used: Collection[str], oldest_live_ms: int | None) -> int:
    """Answers how many objects were removed.

    Args:
        cache: path of the folder.
        used: names of objects that were just used.
        oldest_live_ms: when the longest-living application started; None if none lives.

    Raises:
        HadoopError: the file system refuses, or is not reached.
    """
    marker = f"{cache}/{MARKER}"
    aside = f"{marker}/{os.urandom(6).hex()}"
    files.make_directories(aside, 0o700)
    try:
        return _evict(files, cache, aside, used, oldest_live_ms)
    finally:
        now = files.status(aside).modified_ms
        for left in files.list(marker):
            if left.name == aside.rpartition("/")[2] or left.modified_ms < now - DAY:
                files.delete(f"{marker}/{left.name}", recursive=True)


def _evict(files: WebHdfs, cache: str, aside: str, used: Collection[str], oldest_live_ms: int | None) -> int:
    now = files.status(aside).modified_ms  # by the NameNode's clock, as all the others
    there = {status.name: status for status in files.list(cache) if status.is_file}
    if not all(name in there and last_use(there[name]) > now - _ROOM for name in used):
        return 0  # what is used is not noted here: access times are off, or a clock is wrong
    limit = now - KEPT if oldest_live_ms is None else min(now - KEPT, oldest_live_ms - _ROOM)
    old = [status.name for status in there.values() if last_use(status) < limit]
    return sum(_remove(files, f"{cache}/{name}", f"{aside}/{name}", limit) for name in old)


def _remove(files: WebHdfs, path: str, aside: str, limit: int) -> bool:
    try:
        files.rename(path, aside)
        if last_use(files.status(aside)) < limit:
            return files.delete(aside)
    except FileMissingError:  # somebody else removes, too
        return False
    try:
        files.rename(aside, path)
    except HadoopError:
        files.delete(aside)  # it was sent again meanwhile
    return False
