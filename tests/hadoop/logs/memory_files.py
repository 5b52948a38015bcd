"""Files in memory that read as those of a file system do."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from tony.hadoop.errors import FileMissingError
from tony.hadoop.hdfs.file_system import FileKind, FileStatus

GOLDEN = Path(__file__).parent.parent / "golden" / "logs"


class MemoryFile:
    """One file; counts what is requested.

    Attributes:
        data: its content.
        opened: how often it was opened.
        given: bytes given out.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.opened = 0
        self.given = 0

    def __call__(self, offset: int, length: int) -> io.BytesIO:
        self.opened += 1
        part = self.data[offset : offset + length]
        self.given += len(part)
        return io.BytesIO(part)


class MemoryFiles:
    """A file system: path -> content."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def list(self, path: str) -> Iterable[FileStatus]:
        below = sorted(one for one in self.files if one.startswith(path + "/"))
        if not below:
            raise FileMissingError("java.io.FileNotFoundException", path)
        return [
            FileStatus(name=one[len(path) + 1 :], kind=FileKind.FILE, length=len(self.files[one]))
            for one in below
            if "/" not in one[len(path) + 1 :]
        ]

    def open(self, path: str, offset: int = 0, length: int | None = None) -> io.BytesIO:
        if path not in self.files:
            raise FileMissingError("java.io.FileNotFoundException", path)
        data = self.files[path][offset:]
        return io.BytesIO(data if length is None else data[:length])
