"""A store with cached listings: remote listings are slow, and some are paid for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.storage.stores.store_interface import FileStore, Item

#: Names in one answer of S3; larger folders need, and cost, several requests.
_NAMES_PER_REQUEST = 1_000


class Listings(FileStore):
    """A store that caches the listings of its folders until `forget`; `find` uses them, too.

    Attributes:
        asked: number of listing requests so far, as S3 counts them.
    """

    def __init__(self, store: FileStore) -> None:
        self.address, self.local, self.dated = store.address, store.local, store.dated
        self.asked = 0
        self._store = store
        self._listings: dict[str, Sequence[Item]] = {}

    def forget(self, path: str) -> None:
        """Drop the cached listing of a folder."""
        self._listings.pop(path, None)

    def list(self, path: str = "") -> Sequence[Item]:
        found = self._listings.get(path)
        if found is None:
            found = self._listings[path] = self._store.list(path)
            self.asked += 1 + len(found) // _NAMES_PER_REQUEST
        return found

    def find(self, path: str) -> Item | None:
        folder, _, name = path.rpartition("/")
        return next((item for item in self.list(folder) if item.name == name), None)

    def pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        return self._store.pieces(path, offset)

    def write(self, path: str, content: bytes | Path) -> None:
        self._listings.clear()
        self._store.write(path, content)

    def remove(self, path: str) -> None:
        self._listings.clear()
        self._store.remove(path)
