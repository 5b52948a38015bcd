"""Upload staged objects to the cluster's file system, each once: existing ones are not sent again.

An object's access time is its last use, to within a day; a client that needs an old one sets it. Nodes compare the
modification time, which never changes. Unused objects are removed, see `cache_eviction`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.errors import SchedulerError
from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.ipc.errors import AccessControlError, FileExistsAlreadyError, FileMissingError, RemoteError
from tony.schedulers.yarn.client.cache_eviction import DAY, MARKER, evict, find_last_use, is_due
from tony.schedulers.yarn.client.quota_errors import explain_quota_errors
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.launch_payload import Uploaded

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs


#: Permissions of files readable by all users, and by their owner alone. They are never rewritten, but HDFS lets only
#: users with write permission set a file's times.
_PUBLIC = 0o644
_PRIVATE = 0o600
_FOLDER = 0o755

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """An object that must be in the cluster's cache.

    Attributes:
        path: local path.
        name: name in the cache: its digest, with the suffix by which nodes extract it.
        public: all users may share it.
    """

    path: Path
    name: str
    size: int
    public: bool = False


class CacheUploader:
    """The staging folder in the cluster's file system. Blocks.

    Args:
        staging: its path there.
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
        """Close the connections."""
        self._files.close()

    def provide(self, requests: Collection[UploadRequest]) -> dict[str, Uploaded]:
        """Make sure that objects are in the cache; return what nodes must know of each, by name.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
            SchedulerError: the staging folder belongs to another user.
            StorageError: the file system is full, or a quota is used up.
        """
        now = clock.wall() * 1000
        cached = self._list(self._cache)
        if cached is None:
            self._make_folders(sum(request.size for request in requests))
            cached = {}
        else:
            self._due = is_due(cached, now)
        reachable = any(request.public for request in requests) and self._may_all_enter(self._cache)
        found = {}
        missing = sum(
            request.size
            for request in requests
            if request.name not in cached or cached[request.name].length != request.size
        )
        for request in requests:
            status = cached.get(request.name)
            if status is None or status.length != request.size or not self._record_use(status, now):
                with self._explain_quota_errors(missing):
                    status = self._send(request, f"{self._cache}/{request.name}")
            found[request.name] = Uploaded(
                url=f"{self._uri}{self._cache}/{request.name}",
                size=request.size,
                timestamp=status.modified_ms,
                public=request.public and reachable,
            )
        self._used = list(found)
        return found

    def _make_folders(self, needed: int) -> None:
        with self._explain_quota_errors(needed):
            self._files.make_directories(self._staging, _FOLDER)
            self._files.make_directories(self._cache, _FOLDER)
            self._files.make_directories(f"{self._cache}/{MARKER}", 0o700)

    def _explain_quota_errors(self, needed: int) -> AbstractContextManager[None]:
        return explain_quota_errors(self._files, self._uri, self._staging, needed)

    @property
    def eviction_is_due(self) -> bool:
        """True if the last eviction is more than a day ago. Known after `provide`."""
        return self._due

    def evict(self, oldest_live_ms: int | None) -> int:
        """Remove objects that have not been used for long; return how many.

        Args:
            oldest_live_ms: when the oldest running application of any user started, by the cluster's clock; None if
                none runs. Objects that it may use are kept.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
        """
        self._due = False
        return evict(self._files, self._cache, self._used, oldest_live_ms)

    def _record_use(self, status: FileStatus, now: float) -> bool:
        """Record a use; return False if the object has been removed."""
        if find_last_use(status) > now - DAY:
            return True
        try:
            self._files.set_times(f"{self._cache}/{status.name}", accessed_ms=int(now))
        except FileMissingError:
            return False
        except AccessControlError as error:
            raise SchedulerError(
                f"the staging folder {self._uri}{self._staging} belongs to {status.owner}. Each user needs their own: "
                "remove scheduler.yarn.staging, or set it to a folder of yours."
            ) from error
        except RemoteError as error:  # access times may be disabled; then nothing is ever evicted
            _log.info("cannot record the use of %s: %s", status.name, error)
        return True

    def _list(self, folder: str) -> dict[str, FileStatus] | None:
        try:
            return {status.name: status for status in self._files.list(folder)}
        except FileMissingError:
            return None

    def _send(self, request: UploadRequest, path: str) -> FileStatus:
        """Write to a temporary name and rename: a partial object never has its final name."""
        part = f"{path}.{os.urandom(6).hex()}.part"
        try:
            self._files.create(part, request.path, permission=_PUBLIC if request.public else _PRIVATE)
            self._rename_into_place(part, path, request.size)
        except BaseException:
            self._files.delete(part)
            raise
        self.sent += request.size
        status = self._files.get_status(path)
        if status.length != request.size:
            raise SchedulerError(f"{self._uri}{path} has {status.length} bytes, but {request.size} were uploaded")
        return status

    def _rename_into_place(self, part: str, path: str, size: int) -> None:
        """Keep an object that another client has uploaded meanwhile: nodes compare its time with what jobs report."""
        try:
            self._files.rename(part, path)
        except FileExistsAlreadyError:
            if self._files.get_status(path).length != size:
                self._files.rename(part, path, overwrite=True)
            else:
                self._files.delete(part)

    def _may_all_enter(self, folder: str) -> bool:
        """Return True if all users may traverse every folder of the path, as YARN requires for PUBLIC resources."""
        path = folder
        while path not in ("", "/"):
            if not self._files.get_status(path).permission & 0o001:
                return False
            path = path.rpartition("/")[0]
        return True
