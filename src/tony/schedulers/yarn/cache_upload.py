"""Puts staged objects into the cluster's file system, each once: what is there is not sent again.

An object's access time says when it was last used, give or take a day: who needs an old one sets it. Nodes compare the
modification time, which never changes. What was not used for long is removed, see `cache_eviction`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.dataclass import dataclass
from tony.errors import SchedulerError
from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.ipc.errors import AccessControlError, FileExistsAlreadyError, FileMissingError, RemoteError
from tony.schedulers.yarn import cache_eviction, hdfs_quota_error
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.launch_payload import Uploaded

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Files that all may read, and those that are their owner's alone. Nobody writes to them, but HDFS lets only those set
#: a file's times who may.
_PUBLIC, _PRIVATE = 0o644, 0o600
_FOLDER = 0o755

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """An object that must be in the cluster.

    Attributes:
        path: here.
        name: there; its digest, with the ending that says how nodes unpack it.
        public: all users may share it.
    """

    path: Path
    name: str
    size: int
    public: bool = False


class CacheUploader:
    """The staging folder in the cluster's file system. Blocks.

    Args:
        staging: path of it there.
    """

    def __init__(self, cluster: ClusterClients, staging: str) -> None:
        self._files: WebHdfs = cluster.web_files()
        self._uri = cluster.files.uri
        self._staging = staging
        self._cache = f"{staging}/cache"
        self._used: list[str] = []
        self._due = False
        self.sent = 0

    def close(self) -> None:
        """Ends the connections."""
        self._files.close()

    def provide(self, wanted: Collection[UploadRequest]) -> dict[str, Uploaded]:
        """Sees to it that objects are there; answers what nodes must know of each, by its name.

        Raises:
            HadoopError: the file system refuses, or is not reached.
            SchedulerError: the staging folder is another user's.
            StorageError: it has no room.
        """
        now = clock.wall() * 1000
        there = self._listed(self._cache)
        if there is None:
            self._make_folders(sum(each.size for each in wanted))
            there = {}
        else:
            self._due = cache_eviction.is_due(there, now)
        reachable = any(each.public for each in wanted) and self._all_may_enter(self._cache)
        found = {}
        missing = sum(each.size for each in wanted if each.name not in there or there[each.name].length != each.size)
        for each in wanted:
            status = there.get(each.name)
            if status is None or status.length != each.size or not self._note_use(status, now):
                with self._room_for(missing):
                    status = self._send(each, f"{self._cache}/{each.name}")
            found[each.name] = Uploaded(
                url=f"{self._uri}{self._cache}/{each.name}",
                size=each.size,
                timestamp=status.modified_ms,
                public=each.public and reachable,
            )
        self._used = list(found)
        return found

    def _make_folders(self, needed: int) -> None:
        with self._room_for(needed):
            self._files.make_directories(self._staging, _FOLDER)
            self._files.make_directories(self._cache, _FOLDER)
            self._files.make_directories(f"{self._cache}/{cache_eviction.MARKER}", 0o700)

    def _room_for(self, needed: int) -> AbstractContextManager[None]:
        return hdfs_quota_error.explained(self._files, self._uri, self._staging, needed)

    @property
    def eviction_is_due(self) -> bool:
        """Whether nobody has looked for a day for what may go. Known after `provide`."""
        return self._due

    def evict(self, oldest_live_ms: int | None) -> int:
        """Removes what was not used for long; answers how many objects.

        Args:
            oldest_live_ms: when the application started that lives longest, of all users', in the cluster's own time;
                None if none lives. What it may use is kept.

        Raises:
            HadoopError: the file system refuses, or is not reached.
        """
        self._due = False
        return cache_eviction.evict(self._files, self._cache, self._used, oldest_live_ms)

    def _note_use(self, status: FileStatus, now: float) -> bool:
        """False if it is gone."""
        if cache_eviction.last_use(status) > now - cache_eviction.DAY:
            return True
        try:
            self._files.set_times(f"{self._cache}/{status.name}", accessed_ms=int(now))
        except FileMissingError:
            return False
        except AccessControlError as error:
            raise SchedulerError(
                f"the staging folder {self._uri}{self._staging} is {status.owner}'s. Each user needs one of their own: "
                "leave scheduler.yarn.staging out, or name a folder of yours."
            ) from error
        except RemoteError as error:  # access times may be off; then nothing is ever evicted
            _log.info("the use of %s is not noted: %s", status.name, error)
        return True

    def _listed(self, folder: str) -> dict[str, FileStatus] | None:
        try:
            return {status.name: status for status in self._files.list(folder)}
        except FileMissingError:
            return None

    def _send(self, wanted: UploadRequest, path: str) -> FileStatus:
        """Writes beside and renames: a half-written object has never its name."""
        part = f"{path}.{os.urandom(6).hex()}.part"
        try:
            self._files.create(part, wanted.path, permission=_PUBLIC if wanted.public else _PRIVATE)
            self._put_in_place(part, path, wanted.size)
        except BaseException:
            self._files.delete(part)
            raise
        self.sent += wanted.size
        status = self._files.status(path)
        if status.length != wanted.size:
            raise SchedulerError(
                f"{self._uri}{path} has {status.length} bytes and not the {wanted.size} that were sent"
            )
        return status

    def _put_in_place(self, part: str, path: str, size: int) -> None:
        """What another client has put there meanwhile stays: nodes compare its time with what jobs tell them."""
        try:
            self._files.rename(part, path)
        except FileExistsAlreadyError:
            if self._files.status(path).length != size:
                self._files.rename(part, path, overwrite=True)
            else:
                self._files.delete(part)

    def _all_may_enter(self, folder: str) -> bool:
        """Whether every folder on the way lets everybody through, as YARN wants it for what all users share."""
        path = folder
        while path not in ("", "/"):
            if not self._files.status(path).permission & 0o001:
                return False
            path = path.rpartition("/")[0]
        return True
