"""The tasks' output as files: which there are, and reading on where one stopped.

A task's stream has one file per session and try; when it is full it is renamed to end in `.1` and a new one begun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tony.model.ids import TaskId

OUT = "out"
ERR = "err"
STREAMS = (OUT, ERR)
#: An unfinished line longer than this is shown in pieces: a program that never ends a line must not fill our memory.
LONGEST_LINE = 64 * 1024
_CHUNK = 256 * 1024
_NAME = re.compile(
    r"(?P<role>[A-Za-z][A-Za-z0-9_-]*)-(?P<index>\d{1,9})\.s(?P<session>\d{1,9})\.t(?P<try>\d{1,9})\.(?P<stream>out|err)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LogName:
    """Which program's output a file holds."""

    role: str
    index: int
    session: int
    try_: int
    stream: str

    @property
    def task(self) -> str:
        """The task as people write it: `worker:0`."""
        return str(TaskId(self.role, self.index))

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.role}-{self.index}.s{self.session}.t{self.try_}.{self.stream}"

    @property
    def order(self) -> tuple[str, int, int, int, int]:
        """Sorts by role, index, session and try; a program's output comes before its errors."""
        return self.role, self.index, self.session, self.try_, STREAMS.index(self.stream)

    @classmethod
    def parse(cls, file: str) -> LogName | None:
        """Reads a file's name; None if it is no log of a task's program. That of a rotated file counts as its own."""
        match = _NAME.fullmatch(file.removesuffix(".1"))
        if match is None:
            return None
        return cls(match["role"], int(match["index"]), int(match["session"]), int(match["try"]), match["stream"])


@dataclass(frozen=True, slots=True)
class Line:
    """One line that a program printed.

    Attributes:
        data: the bytes as printed, without the line's end.
    """

    name: LogName
    data: bytes

    @property
    def text(self) -> str:
        """The line as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines are wanted.

    Attributes:
        tasks: such as `worker:0`; None for all.
        streams: `out`, `err`.
        session: only this session's; None for all.
    """

    tasks: Collection[str] | None = None
    streams: Collection[str] = STREAMS
    session: int | None = None

    def takes(self, name: LogName) -> bool:
        """Whether a file's lines are wanted."""
        return (
            (self.tasks is None or name.task in self.tasks)
            and name.stream in self.streams
            and self.session in (None, name.session)
        )


def find(folder: Path, selection: Selection) -> list[LogName]:
    """The files in `folder` that are wanted, in order."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    wanted = [name for name in names if name is not None and selection.takes(name)]
    return sorted(wanted, key=lambda name: name.order)


class Reader:
    """Reads one stream's file from where it stopped, over rotations.

    No file stays open between two reads, so that a thousand tasks need no thousand descriptors.

    Args:
        keep: lines to begin with, counted from the present end; None for all.

    Attributes:
        kept: how many of those lines there are; 0 without `keep`.
    """

    def __init__(self, folder: Path, name: LogName, keep: int | None = None) -> None:
        self.name = name
        self.kept = 0
        self._path = folder / name.file
        self._rotated = folder / f"{name.file}.1"
        self._inode: int | None = None
        self._offset = 0
        self._rest = b""
        if keep is not None:
            self._skip_to_last(keep)

    def read(self) -> Iterator[Line]:
        """What was printed since the last call, as whole lines; what has no end yet waits for it."""
        with ExitStack() as stack:
            files = self._open(stack)
            inodes = [_inode(file) for file in files]
            if self._inode in inodes:
                files = files[inodes.index(self._inode) :]
            else:
                # The first look, or two rotations since the last one: begin with the oldest that is left.
                self._inode = None
            for file in files:
                yield from self._read_on(file)

    def drain(self) -> Iterator[Line]:
        """The rest, with the last line even if it has no end. For when nothing more will be printed."""
        yield from self.read()
        if self._rest:
            rest, self._rest = self._rest, b""
            yield Line(self.name, rest)

    def _open(self, stack: ExitStack) -> list[BinaryIO]:
        """The stream's files, older first.

        The newer is opened first: should a rotation come in between, both are the same file, and nothing is skipped.
        """
        newer = _open(stack, self._path)
        older = _open(stack, self._rotated)
        if newer is not None and older is not None and _inode(newer) == _inode(older):
            older = None
        return [file for file in (older, newer) if file is not None]

    def _read_on(self, file: BinaryIO) -> Iterator[Line]:
        inode = _inode(file)
        if inode != self._inode or os.fstat(file.fileno()).st_size < self._offset:
            self._inode, self._offset = inode, 0
        file.seek(self._offset)
        while part := file.read(_CHUNK):
            self._offset += len(part)
            yield from self._split(part)

    def _split(self, part: bytes) -> Iterator[Line]:
        *lines, rest = (self._rest + part).split(b"\n")
        self._rest = rest
        for line in lines:
            yield Line(self.name, line.removesuffix(b"\r"))
        while len(self._rest) > LONGEST_LINE:
            piece, self._rest = self._rest[:LONGEST_LINE], self._rest[LONGEST_LINE:]
            yield Line(self.name, piece)

    def _skip_to_last(self, keep: int) -> None:
        with ExitStack() as stack:
            for file in reversed(self._open(stack)):
                start, found = _start_of_last(file, keep - self.kept)
                self._inode, self._offset = _inode(file), start
                self.kept += found
                if self.kept >= keep:
                    return


def readers(folder: Path, names: Collection[LogName], keep: int | None = None) -> list[Reader]:
    """A reader for each file, in order.

    Args:
        keep: begin with that many lines of each task's stream, older tries included where the newest has fewer.
    """
    ordered = sorted(names, key=lambda name: name.order)
    if keep is None:
        return [Reader(folder, name) for name in ordered]
    left: dict[tuple[str, str], int] = {}
    made: list[Reader] = []
    for name in reversed(ordered):
        stream = name.task, name.stream
        reader = Reader(folder, name, left.get(stream, keep))
        left[stream] = left.get(stream, keep) - reader.kept
        made.append(reader)
    return made[::-1]


def _open(stack: ExitStack, path: Path) -> BinaryIO | None:
    try:
        return stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _start_of_last(file: BinaryIO, count: int) -> tuple[int, int]:
    """Where the last `count` lines of a file begin, and how many lines there are from there on."""
    position = end = file.seek(0, os.SEEK_END)
    if count <= 0 or end == 0:
        return end, 0
    found = 0
    while position > 0:
        size = min(_CHUNK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        if position + size == end and block.endswith(b"\n"):
            block = block[:-1]
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == count:
                return position + at + 1, count
    return 0, found + 1
