"""What lies in the folders of a store, asked for once: far away each question takes its time, and some cost money."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.storage.store import FileStore, Item

#: Names that S3 tells in one answer: what holds more is asked for, and paid, several times.
_PAGE = 1_000


class Listings(FileStore):
    """A store that remembers what lay in its folders until it is told to forget; also a file is found that way.

    Attributes:
        asked: requests for names that were made so far, as S3 counts them.
    """

    def __init__(self, store: FileStore) -> None:
        self.address, self.local, self.dated = store.address, store.local, store.dated
        self.asked = 0
        self._store = store
        self._known: dict[str, Sequence[Item]] = {}

    def forget(self, path: str) -> None:
        """Asks anew the next time."""
        self._known.pop(path, None)

    def list(self, path: str = "") -> Sequence[Item]:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._store.list(path)
            self.asked += 1 + len(found) // _PAGE
        return found

    def find(self, path: str) -> Item | None:
        folder, _, name = path.rpartition("/")
        return next((item for item in self.list(folder) if item.name == name), None)

    def pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        return self._store.pieces(path, offset)

    def write(self, path: str, content: bytes | Path) -> None:
        self._known.clear()
        self._store.write(path, content)

    def remove(self, path: str) -> None:
        self._known.clear()
        self._store.remove(path)
