"""The interface to the place of one job's files, and the names of its event logs there."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Protocol

from tony.errors import InfraError
from tony.model.state_directory import SEGMENT_GLOB

#: The file with the credentials of clients for the application master.
ACCESS_FILE = "access.json"
#: Bytes that are read at a time.
_PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a job.

    Attributes:
        size: bytes.
        modified_ms: modification time, milliseconds since 1970.
    """

    name: str
    size: int
    modified_ms: int


class LogAppender(Protocol):
    """An event log in a store. Never blocks, except for `close`."""

    @property
    def waiting(self) -> int:
        """The number of bytes that are not durable yet."""
        ...

    @property
    def error(self) -> InfraError | None:
        """The error that ended the log."""
        ...

    @property
    def trouble(self) -> InfraError | None:
        """The error being retried, or the one that ended the log."""
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes. Raises InfraError if the log has failed."""
        ...

    def hurry(self) -> None:
        """Write what is queued now."""
        ...

    def close(self, timeout: float) -> object:
        """Close the log, which is complete. Blocks."""
        ...

    def abandon(self) -> None:
        """Drop what is queued."""
        ...


class JobStore(ABC):
    """The files of one job. Connects on demand. Blocks; thread-safe. Every method may raise InfraError.

    No file appears under its name before it is complete, except for event logs.

    Attributes:
        path: the folder, for messages.
    """

    path: str

    @abstractmethod
    def make(self) -> None:
        """Create the folder, which only the user may read, unless already done."""

    @abstractmethod
    def list(self) -> Mapping[str, StoredFile]:
        """Return the files by name; none if the folder does not exist."""

    @abstractmethod
    def find(self, name: str) -> StoredFile | None:
        """Return a file; None if it does not exist."""

    @abstractmethod
    def read(self, name: str, offset: int, most: int) -> bytes | None:
        """Return at most `most` bytes of a file; None if it does not exist."""

    @abstractmethod
    def put(self, name: str, data: bytes | Path, draft: str = "new") -> None:
        """Create or replace a file.

        Args:
            data: the content, or a local file with it.
            draft: keeps concurrent writers apart.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def remove_drafts(self) -> None:
        """Delete what interrupted calls of `put` have left; to be called when there is no other writer."""

    @abstractmethod
    def open_log(self, name: str, interval: float, most_waiting: int, on_durable: Callable[[int], None]) -> LogAppender:
        """Open an event log for writing, in the folder, which it creates.

        Args:
            interval: seconds between two writes that are not urgent.
            most_waiting: most bytes that `LogAppender.write` accepts before they are durable.
            on_durable: called in any thread with the number of durable bytes: whenever it grows, and when the log has
                ended.
        """

    @abstractmethod
    def take_over_log(self, name: str) -> StoredFile | None:
        """Fence the writer of an event log, and return the log; None while its last write may not have ended.

        From then on it does not change. A log that does not exist is created, empty.
        """

    @abstractmethod
    def is_taken_over(self, name: str) -> bool:
        """Return True if a later AM attempt has taken over the log."""

    @abstractmethod
    def claim_attempt(self, build_log_name: Callable[[int], str]) -> int:
        """Return the number of a new AM attempt, one that no other has, and claim its log.

        For schedulers that do not number AM attempts. Repeatable.
        """

    @abstractmethod
    def is_permanent(self, error: InfraError) -> bool:
        """Return True if an error will hardly go away soon."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def copy(self, stored: StoredFile, file: BinaryIO, most: int) -> bool:
        """Append to a local copy what it is missing of the first `most` bytes.

        Args:
            file: the copy, at its end.

        Returns:
            False if the stored file was removed or replaced meanwhile.
        """
        have = file.tell()
        while have < most:
            data = self.read(stored.name, have, min(_PIECE_BYTES, most - have))
            if not data:
                return False
            have += file.write(data)
        return True

    def put_json(self, name: str, content: object) -> None:
        """Create or replace a small file as JSON."""
        self.put(name, json.dumps(content, separators=(",", ":")).encode())


def build_closed_name(name: str) -> str:
    """Return the name of an event log taken over by a later AM attempt: its former writer no longer finds it."""
    return name.removesuffix(".jsonl") + ".closed.jsonl"


def find_local_name(name: str) -> str | None:
    """Return the local name of an event log, taken over or not; None for other files."""
    return name.replace(".closed.jsonl", ".jsonl") if fnmatchcase(name, SEGMENT_GLOB) else None
