"""A job's own folder in HDFS; its content is listed in `record_publisher`."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import InfraError
from tony.hadoop.errors import (
    AccessControlError,
    AuthorizationError,
    FileExistsAlreadyError,
    FileMissingError,
    InvalidTokenError,
    LoginError,
    QuotaExceededError,
)
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions
from tony.hadoop.hdfs.file_system import FileStatus
from tony.schedulers.job_store.job_store import JobStore, StoredFile, build_closed_name
from tony.storage.hdfs.hdfs_clients import HdfsClients

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs

#: Errors that will hardly go away soon. All others may: a NameNode that has just started knows no DataNode at first,
#: and the lease of a file lasts until the DataNodes have agreed on its length.
_PERMANENT = (QuotaExceededError, AccessControlError, AuthorizationError, InvalidTokenError, LoginError)
#: First character of the name of a file that is not complete; no other name begins so.
_DRAFT_PREFIX = "."


class HdfsJobStore(JobStore):
    """The folder, with mode 700.

    An AM attempt appends to its event log by name. A later one renames the log: the former writer no longer finds it,
    however long it was suspended, and a write in progress ends with the lease.
    """

    def __init__(self, hdfs: HdfsClients, path: str) -> None:
        self.path = path
        self._hdfs = hdfs
        self._lock = threading.Lock()
        self._client: WebHdfs | None = None
        self._is_made = self._has_claimed = False

    def make(self) -> None:
        client = self._web()
        with self._lock:
            if not self._is_made:
                client.make_directories(self.path, 0o700)
                self._is_made = True

    def list(self) -> Mapping[str, StoredFile]:
        try:
            return {status.name: _build_stored_file(status.name, status) for status in self._web().list(self.path)}
        except FileMissingError:
            return {}

    def find(self, name: str) -> StoredFile | None:
        status = self._web().find(f"{self.path}/{name}")
        return None if status is None else _build_stored_file(name, status)

    def read(self, name: str, offset: int, most: int) -> bytes | None:
        try:
            return self._web().read(f"{self.path}/{name}", offset, most)
        except FileMissingError:
            return None

    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        # Under a temporary name at first: HDFS shows partial files, and empty ones if it is full.
        path, draft = f"{self.path}/{name}", f"{self.path}/{_DRAFT_PREFIX}{name}.{draft}"
        client = self._web()
        try:
            client.create(draft, data, permission=0o600, overwrite=True)
            client.rename(draft, path, overwrite=True)
        except InfraError:
            with contextlib.suppress(InfraError):
                client.delete(draft)
            raise

    def delete(self, name: str) -> None:
        self._web().delete(f"{self.path}/{name}")

    def remove_drafts(self) -> None:
        for name in self.list():
            if name.startswith(_DRAFT_PREFIX):
                self.delete(name)

    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> AppendLog:
        self.make()
        options = AppendOptions(
            interval=interval,
            permission=0o600,
            timeout=math.inf,
            most_waiting=most_waiting,
            creates=not self._has_claimed,
        )
        recover = self._hdfs.recover_lease
        return AppendLog(self._web(), f"{self.path}/{name}", options, recover=recover, on_durable=on_durable)

    def take_over_log(self, name: str) -> StoredFile | None:
        closed = build_closed_name(name)
        if self.find(closed) is None:
            self._fence(f"{self.path}/{name}", f"{self.path}/{closed}")
        return self.find(closed) if self._hdfs.recover_lease(f"{self.path}/{closed}") else None

    def _fence(self, path: str, closed: str) -> None:
        """Rename the log. If there is none, create it, which fences an AM attempt that has not written yet."""
        try:
            self._web().rename(path, closed)
        except FileExistsAlreadyError:
            return  # a previous attempt of ours has succeeded
        except FileMissingError:
            self.make()
            with contextlib.suppress(FileExistsAlreadyError):
                self._web().create(closed, b"", permission=0o600)

    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        # A log exists before its AM attempt has a number, so a later one renames it and need not create it, whenever
        # this one continues. A number whose answer was lost is skipped.
        self.make()
        while True:
            names = self.list()
            number = 1
            while {build_log_name(number), build_closed_name(build_log_name(number))} & names.keys():
                number += 1
            name = build_log_name(number)
            with contextlib.suppress(FileExistsAlreadyError):
                self._web().create(f"{self.path}/{name}", b"", permission=0o600)
                if not self.is_taken_over(name):
                    self._has_claimed = True
                    return number
                self.delete(name)  # it was taken over between these requests, from another process

    def is_taken_over(self, name: str) -> bool:
        return self.find(build_closed_name(name)) is not None

    def is_permanent(self, error: InfraError) -> bool:
        return isinstance(error, _PERMANENT)

    def close(self) -> None:
        with self._lock:
            if self._client:
                self._client.close()
                self._client = None

    def _web(self) -> WebHdfs:
        with self._lock:
            if self._client is None:
                self._client = self._hdfs.web_files()
            return self._client


def _build_stored_file(name: str, status: FileStatus) -> StoredFile:
    return StoredFile(name=name, size=status.length, modified_ms=status.modified_ms)
