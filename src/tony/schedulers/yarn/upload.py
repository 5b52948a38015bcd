"""Puts staged objects into the cluster's file system, each once: what is there is not sent again."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tony.dataclass import dataclass
from tony.errors import SchedulerError
from tony.hadoop.hdfs.files import FileStatus
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.ipc.errors import FileMissingError
from tony.schedulers.yarn.cluster import Cluster
from tony.schedulers.yarn.papers import Uploaded

#: Files that all may read and nobody writes; and those that are their owner's alone.
_PUBLIC, _PRIVATE = 0o444, 0o400
_PUBLIC_FOLDER, _PRIVATE_FOLDER = 0o755, 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
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


class Depot:
    """The staging folder in the cluster's file system. Blocks.

    Args:
        staging: path of it there.
    """

    def __init__(self, cluster: Cluster, staging: str) -> None:
        self._files: WebHdfs = cluster.web_files()
        self._uri = cluster.files.uri
        self._staging = staging
        self.sent = 0

    def close(self) -> None:
        """Ends the connections."""
        self._files.close()

    def provide(self, wanted: Collection[Wanted]) -> dict[str, Uploaded]:
        """Sees to it that objects are there; answers what nodes must know of each, by its name.

        Raises:
            HadoopError: the file system refuses, or is not reached.
        """
        cache = f"{self._staging}/cache"
        there = self._listed(cache)
        if there is None:
            self._files.make_directories(self._staging, _PUBLIC_FOLDER)
            self._files.make_directories(cache, _PUBLIC_FOLDER)
            there = {}
        reachable = any(each.public for each in wanted) and self._all_may_enter(cache)
        found = {}
        for each in wanted:
            status = there.get(each.name)
            if status is None or status.length != each.size:
                status = self._send(each, f"{cache}/{each.name}")
            found[each.name] = Uploaded(
                url=f"{self._uri}{cache}/{each.name}",
                size=each.size,
                timestamp=status.modified_ms,
                public=each.public and reachable,
            )
        return found

    def _listed(self, folder: str) -> dict[str, FileStatus] | None:
        try:
            return {status.name: status for status in self._files.list(folder)}
        except FileMissingError:
            return None

    def _send(self, wanted: Wanted, path: str) -> FileStatus:
        """Writes beside and renames: a half-written object has never its name."""
        part = f"{path}.{os.urandom(6).hex()}.part"
        try:
            self._files.create(part, wanted.path, permission=_PUBLIC if wanted.public else _PRIVATE)
            self._files.rename(part, path, overwrite=True)
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

    def _all_may_enter(self, folder: str) -> bool:
        """Whether every folder on the way lets everybody through, as YARN wants it for what all users share."""
        path = folder
        while path not in ("", "/"):
            if not self._files.status(path).permission & 0o001:
                return False
            path = path.rpartition("/")[0]
        return True
