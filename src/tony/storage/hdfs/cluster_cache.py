"""The cache of objects in the cluster's file system: each is uploaded once, and removed when it is unused for long.

An object's access time is its last use, to within a day; a client that needs an old one sets it. YARN's nodes compare
the modification time, which never changes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tony import clock
from tony.errors import SchedulerError, StorageError
from tony.hadoop.errors import (
    AccessControlError,
    FileExistsAlreadyError,
    FileMissingError,
    HadoopError,
    NoSpaceError,
    QuotaExceededError,
    RemoteError,
)
from tony.hadoop.hdfs.file_system import FileStatus
from tony.storage.staging.remote_files_interface import RemoteFile
from tony.units import format_size

if TYPE_CHECKING:
    from tony.hadoop.hdfs.file_system import SpaceUsage
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Permissions of files readable by all users, and by their owner alone. They are never rewritten, but HDFS lets only
#: users with write permission set a file's times.
_PUBLIC = 0o644
_PRIVATE = 0o600
_FOLDER = 0o755
#: One day in milliseconds.
DAY = 24 * 3600 * 1000
#: Objects used within this time (milliseconds) are always kept.
_KEPT = 30 * DAY
#: Allowance in milliseconds: a use is recorded once a day; the other day is for clock skew.
_CLOCK_MARGIN = 2 * DAY
#: Folder in the cache for objects being removed; every eviction writes into it, so its time is that of the last one.
MARKER = ".evicted"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """An object that must be in the cluster's cache.

    Attributes:
        path: local path.
        name: name in the cache: its digest, on YARN with the suffix by which nodes extract it.
        public: all users may share it.
    """

    path: Path
    name: str
    size: int
    public: bool = False


class ClusterCache:
    """The cache in a staging folder of the cluster's file system. Blocks.

    Args:
        files: a client of the file system, which is closed with the cache.
        uri: of the file system.
        staging: path of that folder.
        setting: the setting that names it, for messages.
        on_piece: called for each piece of a file that is sent; may raise an error, which ends that.

    Attributes:
        sent: bytes uploaded.
        eviction_is_due: the last eviction is more than a day ago. Known after `provide`.
    """

    def __init__(
        self, files: WebHdfs, uri: str, staging: str, setting: str, on_piece: Callable[[], object] = lambda: None
    ) -> None:
        self._files, self._uri, self._staging = files, uri, staging
        self._setting, self._on_piece = setting, on_piece
        self._cache = f"{staging}/cache"
        self._used: list[str] = []
        self.eviction_is_due = False
        self.sent = 0

    def close(self) -> None:
        """Close the connections."""
        self._files.close()

    # --- uploads ------------------------------------------------------------------------------------------------------

    def provide(self, requests: Collection[UploadRequest]) -> dict[str, RemoteFile]:
        """Make sure that objects are in the cache; return what nodes must know of each, by name.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
            SchedulerError: the staging folder belongs to another user.
            StorageError: the file system is full, or a quota is used up.
        """
        now = clock.wall() * 1000
        try:
            cached = {status.name: status for status in self._files.list(self._cache)}
        except FileMissingError:
            cached = {}
            self._make_folders(sum(request.size for request in requests))
        else:
            marker = cached.get(MARKER)
            self.eviction_is_due = marker is None or marker.modified_ms < now - DAY
        reachable = any(request.public for request in requests) and self._may_all_enter(self._cache)
        known = {each.name: cached[each.name] for each in requests if _is_whole(each, cached.get(each.name))}
        missing = sum(request.size for request in requests if request.name not in known)
        found = {}
        for request in requests:
            status = known.get(request.name)
            if status is None or not self._record_use(status, now):
                with self._explain_full(missing):
                    status = self._send(request, f"{self._cache}/{request.name}")
            found[request.name] = RemoteFile(
                address=f"{self._uri}{self._cache}/{request.name}",
                size=request.size,
                timestamp=status.modified_ms,
                public=request.public and reachable,
            )
        self._used = list(found)
        return found

    def _make_folders(self, needed: int) -> None:
        with self._explain_full(needed):
            self._files.make_directories(self._staging, _FOLDER)
            self._files.make_directories(self._cache, _FOLDER)
            self._files.make_directories(f"{self._cache}/{MARKER}", 0o700)

    def _record_use(self, status: FileStatus, now: float) -> bool:
        """Record a use; return False if the object has been removed."""
        if _find_last_use(status) > now - DAY:
            return True
        try:
            self._files.set_times(f"{self._cache}/{status.name}", accessed_ms=int(now))
        except FileMissingError:
            return False
        except AccessControlError as error:
            raise SchedulerError(
                f"the staging folder {self._uri}{self._staging} belongs to {status.owner}. Each user needs their own: "
                f"set {self._setting} to a folder of yours."
            ) from error
        except RemoteError as error:  # access times may be disabled; then nothing is ever evicted
            _log.info("cannot record the use of %s: %s", status.name, error)
        return True

    def _send(self, request: UploadRequest, path: str) -> FileStatus:
        """Write to a temporary name and rename: a partial object never has its final name."""
        part = f"{path}.{os.urandom(6).hex()}.part"
        try:
            permission = _PUBLIC if request.public else _PRIVATE
            self._files.create(part, request.path, permission=permission, on_piece=self._on_piece)
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

    # --- eviction -----------------------------------------------------------------------------------------------------

    def evict(self, oldest_live_ms: int | None) -> int:
        """Remove objects that have not been used for long; return how many.

        Args:
            oldest_live_ms: when the oldest running application of any user started, by the cluster's clock; None if
                none runs. Objects that it may use are kept.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
        """
        self.eviction_is_due = False
        marker = f"{self._cache}/{MARKER}"
        aside = f"{marker}/{os.urandom(6).hex()}"
        self._files.make_directories(aside, 0o700)
        now = self._files.get_status(aside).modified_ms  # by the NameNode's clock, like all the others
        try:
            return self._evict(aside, now, oldest_live_ms)
        finally:
            for left in self._files.list(marker):
                if left.name == aside.rpartition("/")[2] or left.modified_ms < now - DAY:
                    self._files.delete(f"{marker}/{left.name}", recursive=True)

    def _evict(self, aside: str, now: int, oldest_live_ms: int | None) -> int:
        cached = {status.name: status for status in self._files.list(self._cache) if status.is_file}
        if not all(name in cached and _find_last_use(cached[name]) > now - _CLOCK_MARGIN for name in self._used):
            return 0  # uses are not recorded: access times are disabled, or a clock is wrong
        limit = now - _KEPT if oldest_live_ms is None else min(now - _KEPT, oldest_live_ms - _CLOCK_MARGIN)
        old = [status.name for status in cached.values() if _find_last_use(status) < limit]
        return sum(self._remove(f"{self._cache}/{name}", f"{aside}/{name}", limit) for name in old)

    def _remove(self, path: str, aside: str, limit: int) -> bool:
        try:
            self._files.rename(path, aside)
            if _find_last_use(self._files.get_status(aside)) < limit:
                return self._files.delete(aside)
        except FileMissingError:  # another client evicts, too
            return False
        try:
            self._files.rename(aside, path)
        except HadoopError:
            self._files.delete(aside)  # it has been uploaded again in the meantime
        return False

    # --- a full file system -------------------------------------------------------------------------------------------

    @contextmanager
    def _explain_full(self, needed: int) -> Iterator[None]:
        """Explain errors of a used-up quota, or of full DataNodes.

        Args:
            needed: bytes to be written in all.

        Raises:
            StorageError: instead of such an error.
        """
        try:
            yield
        except (QuotaExceededError, NoSpaceError) as error:
            limit = self._describe_quota() if isinstance(error, QuotaExceededError) else self._describe_rest()
            raise StorageError(
                f"not enough space in {self._uri}{self._staging} ({self._setting}): {format_size(needed)} have "
                f"to be uploaded{limit}. Delete files there, have the limit raised, or set {self._setting} to "
                f"another folder. HDFS says: {error.remote_message}"
            ) from error

    def _describe_quota(self) -> str:
        """Describe the used-up quota: of the folder, or of one above it."""
        path = self._staging
        while path:
            try:
                usage = self._files.get_usage(path)
            except HadoopError:  # older NameNodes do not report it; their own message must do
                return ""
            if usage.most_space is not None or usage.most_names is not None:
                return f", but the quota of {path} {_format_quota(usage)}"
            path = path.rpartition("/")[0]
        return ""

    def _describe_rest(self) -> str:
        try:
            return f", but all DataNodes together have {format_size(self._files.get_remaining())} left"
        except HadoopError:
            return ""


def _is_whole(request: UploadRequest, status: FileStatus | None) -> bool:
    return status is not None and status.is_file and status.length == request.size


def _find_last_use(status: FileStatus) -> int:
    """Return when an object was last used: milliseconds since 1970, accurate to a day."""
    return max(status.modified_ms, status.accessed_ms)


def _format_quota(usage: SpaceUsage) -> str:
    """Describe the rest of a quota. HDFS charges a whole block for a file being written, whatever its size."""
    parts = []
    if usage.most_space is not None:
        left = max(0, usage.most_space - usage.space)
        parts.append(
            f"leaves {format_size(left)} of {format_size(usage.most_space)} (while being written, each file takes a "
            "whole block, dfs.blocksize, for each replica)"
        )
    if usage.most_names is not None:
        parts.append(f"leaves {max(0, usage.most_names - usage.names)} of {usage.most_names} names")
    return " and ".join(parts)
