"""The interface to the file systems of histories."""

from __future__ import annotations

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.errors import StorageError
from tony.model.log_file_tail import LogFileTail

#: Bytes that are sent or fetched at once.
PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or folder.

    Attributes:
        name: the last part of its path.
        size: bytes; 0 for a folder.
        changed: modification time, seconds since 1970; 0 if unknown. Of a folder: when an entry was created or removed.
        owner: the owning user; empty if unknown.
    """

    name: str
    folder: bool
    size: int = 0
    changed: float = 0.0
    owner: str = ""


class FileStore(ABC):
    """A folder and everything below it. Blocks; thread-safe.

    Paths are relative to it, with `/`; the empty one is the folder itself. Links are not followed. Every method raises
    a TonyError where the file system refuses or does not answer.

    Attributes:
        address: as users write it.
        local: the folder, if it is on this machine.
        dated: folders have modification times that change with their entries.
        has_tails: it has all that is kept of the output of ended jobs, in `read_tails`.
    """

    address: str
    local: Path | None = None
    dated: bool = True
    has_tails: bool = False

    @abstractmethod
    def list(self, path: str = "") -> Sequence[Item]:
        """Return the entries of a folder; none if it does not exist."""

    @abstractmethod
    def find(self, path: str) -> Item | None:
        """Return a file or folder; None if it does not exist."""

    @abstractmethod
    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a file from `offset` on, in pieces; none if it does not exist."""

    @abstractmethod
    def write(self, path: str, content: bytes | Path) -> None:
        """Create or replace a file, with the folders above it."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; do nothing if it does not exist."""

    def read_tails(self, path: str) -> Sequence[LogFileTail]:
        """Return the ends of the output of the job in a folder, if they are not kept as log files."""
        return ()

    def hold(self, path: str) -> FileStore | None:
        """Return a store that keeps reading the same job directory, with the same paths, even if it is replaced.

        Where that cannot happen it is the store itself. None if there is no such directory.
        """
        return self

    def close(self) -> None:
        """Close open connections; may be called twice."""
        return

    def read(self, path: str, most: int) -> bytes | None:
        """Return a small file; None if it does not exist.

        Raises:
            ValueError: it is larger than `most` bytes.
        """
        found = self.find(path)
        if found is None or found.folder:
            return None
        parts, left = [], most
        for piece in self.read_pieces(path) if found.size <= most else ():
            left -= len(piece)
            if left < 0:
                break
            parts.append(piece)
        if left < 0 or found.size > most:
            raise ValueError(f"{posixpath.basename(path)} is larger than {most >> 20} MiB")
        if found.size and not parts:  # removed since it was found
            return None
        return b"".join(parts)


def join_path(*parts: str) -> str:
    """Join parts of a path, skipping empty ones."""
    return "/".join(part for part in parts if part)


def join_below(root: str, path: str, address: str) -> str:
    """Join `root` and a relative path; an empty path is the root itself.

    Raises:
        StorageError: the path leads out of the root; names `address`.
    """
    if any(part in ("..", ".") for part in path.split("/")) or path.startswith("/") or "\0" in path:
        raise StorageError(f"{path!r} is not a path below {address}")
    return f"{root}/{path}" if path else root
