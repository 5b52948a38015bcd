"""A job's own folder in the cluster's file system; its content is listed in `record_publisher`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import InfraError

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebHdfs


def segment_name(number: int) -> str:
    """Return the name of an AM attempt's event log while that AM attempt may write it."""
    return f"events.{number}.jsonl"


def closed_name(name: str) -> str:
    """Return the name of an event log taken over by a later AM attempt: its former writer no longer finds it."""
    return name.removesuffix(".jsonl") + ".closed.jsonl"


def local_name(name: str) -> str | None:
    """Return the local name of an event log, taken over or not; None for other files."""
    if not name.startswith("events.") or not name.endswith(".jsonl"):
        return None
    return name.replace(".closed.jsonl", ".jsonl")


class JobFiles:
    """The job's folder in HDFS. Connects on demand. Blocks; thread-safe.

    Args:
        path: of the folder.
        opens: opens the file system; its imports are slow.
    """

    def __init__(self, path: str, opens: Callable[[], WebHdfs]) -> None:
        self.path = path
        self._opens = opens
        self._lock = threading.Lock()
        self._client: WebHdfs | None = None
        self._is_made = False

    @property
    def client(self) -> WebHdfs:
        """The file system.

        Raises:
            InfraError: the configuration names none that can be used.
        """
        with self._lock:
            if self._client is None:
                self._client = self._opens()
            return self._client

    def make(self) -> None:
        """Create the folder with mode 700, unless already done.

        Raises:
            HadoopError: it cannot be created.
        """
        client = self.client
        with self._lock:
            if not self._is_made:
                client.make_directories(self.path, 0o700)
                self._is_made = True

    def put(self, name: str, content: object) -> None:
        """Write a small file as JSON. Raises like `send`."""
        self.send(name, json.dumps(content, separators=(",", ":")).encode())

    def send(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        """Write a file under a temporary name and rename it: HDFS shows partial files, and empty ones if it is full.

        Args:
            data: the content, or a local file with it.
            draft: suffix of the temporary name, which keeps concurrent writers apart.

        Raises:
            HadoopError: it cannot be written.
        """
        path, draft = f"{self.path}/{name}", f"{self.path}/.{name}.{draft}"
        try:
            self.client.create(draft, data, permission=0o600, overwrite=True)
            self.client.rename(draft, path, overwrite=True)
        except InfraError:
            with contextlib.suppress(InfraError):
                self.client.delete(draft)
            raise

    def delete(self, name: str) -> None:
        """Delete a file, if it exists. Raises HadoopError."""
        self.client.delete(f"{self.path}/{name}")

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._client:
                self._client.close()
                self._client = None
