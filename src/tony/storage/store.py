"""Files by their paths, wherever they lie: what readers and keepers of histories need of a file system."""

from __future__ import annotations

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.dataclass import dataclass

#: Bytes that are sent or fetched at once.
PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or folder.

    Attributes:
        name: the last part of its path.
        size: bytes; 0 of a folder.
        changed: seconds since 1970; 0 where nobody keeps that. Of a folder: when something in it was made or removed.
        owner: the user whose it is; empty where nobody keeps that.
    """

    name: str
    folder: bool
    size: int = 0
    changed: float = 0.0
    owner: str = ""


class FileStore(ABC):
    """A folder somewhere, and all below it. Blocks; for any number of threads.

    Paths are relative to it, with `/`; the empty one is the folder itself. Links are not followed. Every method raises
    a TonyError where the file system refuses or does not answer.

    Attributes:
        address: as people write it.
        local: the folder, if it is one of this machine.
        dated: folders have times of their own that change with what is in them.
    """

    address: str
    local: Path | None = None
    dated: bool = True

    @abstractmethod
    def list(self, path: str = "") -> Sequence[Item]:
        """What lies in a folder; nothing, if there is none."""

    @abstractmethod
    def find(self, path: str) -> Item | None:
        """What is known of a file or folder; None if there is none."""

    @abstractmethod
    def pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        """The bytes of a file from `offset` on, piece by piece. Of one that is not there, none."""

    @abstractmethod
    def write(self, path: str, content: bytes | Path) -> None:
        """Makes a file, with the folders above it, or puts it in another's place."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all in it; fine if there is none."""

    def hold(self, path: str) -> FileStore | None:
        """Return a store that reads one job directory, with the same paths, whatever is put into its place meanwhile.

        Where that cannot happen it is the store itself. None if there is no such directory.
        """
        return self

    def close(self) -> None:
        """Ends what is open; may be called twice."""
        return

    def read(self, path: str, most: int) -> bytes | None:
        """A small file; None if there is none.

        Raises:
            ValueError: it is larger than `most` bytes.
        """
        found = self.find(path)
        if found is None or found.folder:
            return None
        parts, left = [], most
        for piece in self.pieces(path) if found.size <= most else ():
            left -= len(piece)
            if left < 0:
                break
            parts.append(piece)
        if left < 0 or found.size > most:
            raise ValueError(f"{posixpath.basename(path)} is larger than {most >> 20} MiB")
        if found.size and not parts:  # removed since it was found, which may be a while ago
            return None
        return b"".join(parts)


def joined(*parts: str) -> str:
    """A path of its parts, without empty ones."""
    return "/".join(part for part in parts if part)
