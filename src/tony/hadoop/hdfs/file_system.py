"""Types common to all HDFS clients: file status, and the interface that readers need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Protocol, Self


class FileKind(Enum):
    """The kind of a path in HDFS."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The status of a file or folder.

    Attributes:
        name: last part of the path; empty if the path itself was requested.
        kind: file, folder or link.
        length: bytes; 0 for a folder. Of a file that is being written: what its last complete block ends at, or
            what the writer made known.
        modified_ms: milliseconds since 1970, exactly as the NameNode says: YARN compares this number.
        accessed_ms: likewise; 0 for folders and where access times are off.
        permission: the bits, such as 0o644.
        encrypted: it is in an encryption zone.
    """

    name: str
    kind: FileKind
    length: int = 0
    modified_ms: int = 0
    accessed_ms: int = 0
    owner: str = ""
    group: str = ""
    permission: int = 0
    encrypted: bool = False

    @property
    def is_file(self) -> bool:
        """Return True if it is a file."""
        return self.kind is FileKind.FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceUsage:
    """The usage and quotas of a folder.

    Attributes:
        names: files and folders, itself included.
        most_names: quota of them; None for none.
        space: bytes, all copies counted.
        most_space: quota of them; None for none.
    """

    names: int
    most_names: int | None
    space: int
    most_space: int | None


class SeekableReader(Protocol):
    """A readable stream; a context manager that closes it."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, at least one until the end; empty at the end."""
        ...

    def close(self) -> None:
        """Close the stream. May be called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class FileSystem(Protocol):
    """The file-system interface that readers need; implemented by `WebHdfs`."""

    def list(self, path: str) -> Iterable[FileStatus]:
        """Return the entries of a folder, or the file itself.

        Raises:
            FileMissingError: there is none.
        """
        ...

    def open(self, path: str, offset: int = 0, length: int | None = None) -> SeekableReader:
        """Open the bytes from `offset` on, at most `length`; fewer at the end of the file.

        Raises:
            FileMissingError: there is none.
        """
        ...
