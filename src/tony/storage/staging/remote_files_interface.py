"""The interface to files in a cluster's file system."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tony.hadoop.hdfs.file_system import SeekableReader


class RemoteFileNotFoundError(ValueError):
    """There is no such file or folder; the message says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file.

    Attributes:
        address: full address, `hdfs://nn:8020/data/x.zip`, including a default file system.
        size: bytes.
        timestamp: modification time, milliseconds since 1970, exactly as the file system reports it.
        public: all users may read it, and enter every folder above it.
    """

    address: str
    size: int
    timestamp: int
    public: bool = False

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.address.rpartition("/")[2]

    @property
    def key(self) -> str:
        """Return 64 hex digits that stand for the content where it is not read; they change when it is rewritten."""
        return hashlib.sha256(f"{self.address}\0{self.size}\0{self.timestamp}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """The files directly in a folder, and the names of its subfolders, which are not listed."""

    files: tuple[RemoteFile, ...] = field(default_factory=tuple)
    folders: tuple[str, ...] = ()


class RemoteFiles(ABC):
    """A client of a cluster's file systems. Blocks.

    Attributes:
        in_place: the job's nodes fetch the files from there themselves; else they are fetched to this machine.
    """

    in_place: bool = False

    @abstractmethod
    def stat(self, address: str) -> RemoteFile | RemoteFolder:
        """Return what is at an address (`model/hdfs_uri.py`).

        Raises:
            RemoteFileNotFoundError: there is nothing.
            ValueError: it cannot be used; the message says why.
            TonyError: the file system does not answer, or does not accept the user.
        """

    @abstractmethod
    def open(self, file: RemoteFile, length: int | None = None) -> SeekableReader:
        """Return a stream of the file's bytes, from the first on.

        Args:
            length: maximum bytes; None for all.

        Raises:
            ValueError: it may not be read, or no longer exists.
            TonyError: the file system does not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
