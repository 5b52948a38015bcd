"""Files that lie in a cluster's file system already: what is known of them, and who reads them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self

from tony.dataclass import dataclass, field


class NotThere(ValueError):  # noqa: N818 - a verdict, as it reads where it is raised
    """There is no such file or folder; the text says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file.

    Attributes:
        address: whole, `hdfs://nn:8020/data/x.zip`, with the file system that a short one means.
        size: bytes.
        timestamp: modification time, milliseconds since 1970, exactly as the file system says.
        public: everybody may read it, and go through every folder on the way.
    """

    address: str
    size: int
    timestamp: int
    public: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.address.rpartition("/")[2]

    @property
    def key(self) -> str:
        """Stands for its content where that is not read: 64 hex digits, others when the file is written anew."""
        return hashlib.sha256(f"{self.address}\0{self.size}\0{self.timestamp}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFolder:
    """The files right in a folder, and the names of folders there, which nobody looks into."""

    files: tuple[RemoteFile, ...] = field(default_factory=tuple)
    folders: tuple[str, ...] = ()


class Bytes(Protocol):
    """Bytes that come one after another."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, at least one until the end; empty at the end."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class RemoteFiles(ABC):
    """The file systems of a cluster, as a client sees them. Blocks.

    Attributes:
        in_place: the nodes of the job fetch the files from there themselves; else they are fetched to this machine.
    """

    in_place: bool = False

    @abstractmethod
    def look(self, address: str) -> RemoteFile | RemoteFolder:
        """What an address (`config.addresses`) leads to.

        Raises:
            NotThere: to nothing.
            ValueError: to nothing that can be used; says why.
            TonyError: nobody answers, or nobody of us is known there.
        """

    @abstractmethod
    def open(self, file: RemoteFile, length: int | None = None) -> Bytes:
        """Its bytes, from the first on.

        Args:
            length: at most so many; None for all.

        Raises:
            ValueError: it may not be read, or is gone.
            TonyError: nobody answers.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the connections."""
