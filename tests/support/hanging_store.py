"""A file store that never answers, for tests of code that must not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tony.errors import StorageError
from tony.storage.stores.store_interface import FileStore, Item


class HangingStore(FileStore):
    """Blocks each call until `let_go`, then raises StorageError.

    Attributes:
        callers: number of blocked calls.
    """

    def __init__(self, address: str = "hanging://somewhere") -> None:
        self.address = address
        self.callers = 0
        self._mutex = threading.Lock()
        self._open = threading.Event()

    def let_go(self) -> None:
        """Unblock all calls."""
        self._open.set()

    def _hang(self) -> NoReturn:
        with self._mutex:
            self.callers += 1
        self._open.wait()
        with self._mutex:
            self.callers -= 1
        raise StorageError(f"{self.address} is closed")

    def list(self, path: str = "") -> Sequence[Item]:
        self._hang()

    def find(self, path: str) -> Item | None:
        self._hang()

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        self._hang()

    def write(self, path: str, content: bytes | Path) -> None:
        self._hang()

    def remove(self, path: str) -> None:
        self._hang()
