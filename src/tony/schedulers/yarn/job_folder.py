"""A job's own folder in the cluster's file system: `record_publisher` says what is in it."""

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
    """The event log of an attempt, while nobody has taken it."""
    return f"events.{number}.jsonl"


def closed_name(name: str) -> str:
    """What an event log is called once a later attempt has taken it: whoever wrote it finds it no more."""
    return name.removesuffix(".jsonl") + ".closed.jsonl"


def local_name(name: str) -> str | None:
    """What a file of the folder is called in a job's folder, if it is an event log, taken or not."""
    if not name.startswith("events.") or not name.endswith(".jsonl"):
        return None
    return name.replace(".closed.jsonl", ".jsonl")


class JobFiles:
    """Opens the file system when it is needed. Blocks; for any number of threads.

    Args:
        path: of the folder.
        opens: opens the file system; it has much to load.
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
            InfraError: the configuration names none that could be used.
        """
        with self._lock:
            if self._client is None:
                self._client = self._opens()
            return self._client

    def make(self) -> None:
        """Makes the folder, its owner's alone, if that was not done before.

        Raises:
            HadoopError: it cannot be made.
        """
        client = self.client
        with self._lock:
            if not self._is_made:
                client.make_directories(self.path, 0o700)
                self._is_made = True

    def put(self, name: str, content: object) -> None:
        """Writes a small file as JSON. Raises as `send`."""
        self.send(name, json.dumps(content, separators=(",", ":")).encode())

    def send(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        """Writes a file beside its place, and renames it: HDFS shows what is being written, and empty files where it
        has no room.

        Args:
            data: what it shall hold, or a file that holds it.
            draft: word of those who write the same file at one time.

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
        """Removes a file, if it is there. Raises HadoopError."""
        self.client.delete(f"{self.path}/{name}")

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            if self._client:
                self._client.close()
                self._client = None
