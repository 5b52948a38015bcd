"""Reading a task's output from where one stopped, whatever its writer does meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from tony.dataclass import dataclass
from tony.jobs.log_names import LogName

#: An unfinished line longer than this is shown in pieces: a program that never ends a line must not fill our memory.
LONGEST_LINE = 64 * 1024
_CHUNK = 256 * 1024
#: At most so many lines, and about so many bytes, are handed on at once.
_PORTION, _PORTION_BYTES = 500, 1024 * 1024
#: Bytes before the place where reading stopped that must be there again: inode numbers are given to new files at once.
_MARK = 64


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a program printed.

    Attributes:
        data: the bytes as printed, without the newline.
    """

    name: LogName
    data: bytes

    @property
    def text(self) -> str:
        """The line as text, without a carriage return at its end; bytes that are not UTF-8 are replaced."""
        return self.data.removesuffix(b"\r").decode("utf-8", errors="replace")


class LogReader:
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
        self._rotated = name.rotated(folder)
        self._inode: int | None = None
        self._offset = 0
        self._mark = b""
        self._rest = b""
        if keep is not None:
            self._skip_to_last(keep)

    def read(self) -> Iterator[LogLine]:
        """What was printed since the last call, as whole lines; what has no end yet waits for it."""
        with ExitStack() as stack:
            files = self._open(stack)
            ours = [self._is_ours(file) for file in files]
            if any(ours):
                files = files[ours.index(True) :]
            # None is ours at the first look, and after two rotations: then the oldest that is left comes first.
            for number, file in enumerate(files):
                yield from self._read_on(file, self._offset if number == 0 and any(ours) else 0)

    def drain(self) -> Iterator[LogLine]:
        """The rest, with the last line even if it has no end. For when nothing more will be printed."""
        yield from self.read()
        yield from self.take()

    def take(self) -> Iterator[LogLine]:
        """What was read and has no end yet, as a line of its own."""
        if self._rest:
            rest, self._rest = self._rest, b""
            yield LogLine(self.name, rest)

    @property
    def unfinished(self) -> bool:
        """Whether something was read that has no end yet."""
        return bool(self._rest)

    def _open(self, stack: ExitStack) -> list[BinaryIO]:
        """The stream's files, older first.

        The newer is opened first: should a rotation come in between, both are the same file, and nothing is skipped.
        """
        newer = _open(stack, self._path)
        older = _open(stack, self._rotated)
        if newer is not None and older is not None and _inode(newer) == _inode(older):
            older = None
        return [file for file in (older, newer) if file is not None]

    def _is_ours(self, file: BinaryIO) -> bool:
        """Whether this is the file in which reading stopped last."""
        return (
            _inode(file) == self._inode
            and os.fstat(file.fileno()).st_size >= self._offset
            and _before(file, self._offset) == self._mark
        )

    def _read_on(self, file: BinaryIO, offset: int) -> Iterator[LogLine]:
        self._stand(file, offset)
        file.seek(offset)
        while part := file.read(_CHUNK):
            self._offset += len(part)
            self._mark = (self._mark + part)[-_MARK:]
            yield from self._split(part)

    def _stand(self, file: BinaryIO, offset: int) -> None:
        self._inode, self._offset, self._mark = _inode(file), offset, _before(file, offset)

    def _split(self, part: bytes) -> Iterator[LogLine]:
        *lines, rest = (self._rest + part).split(b"\n")
        self._rest = rest
        for line in lines:
            yield LogLine(self.name, line)
        while len(self._rest) > LONGEST_LINE:
            piece, self._rest = self._rest[:LONGEST_LINE], self._rest[LONGEST_LINE:]
            yield LogLine(self.name, piece)

    def _skip_to_last(self, keep: int) -> None:
        with ExitStack() as stack:
            for file in reversed(self._open(stack)):
                start, found = _start_of_last(file, keep - self.kept)
                self._stand(file, start)
                self.kept += found
                if self.kept >= keep:
                    return


def portions(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    """The lines, several at a time: many that are short, few that are long."""
    portion: list[LogLine] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line.data)
        if len(portion) >= _PORTION or size >= _PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def readers(
    folder: Path, names: Collection[LogName], keep: int | None = None, kind: type[LogReader] = LogReader
) -> list[LogReader]:
    """A reader for each file, in order.

    Args:
        keep: begin with that many lines of each task's stream, older tries included where the newest has fewer.
    """
    ordered = sorted(names, key=lambda name: name.order)
    if keep is None:
        return [kind(folder, name) for name in ordered]
    left: dict[tuple[str, str], int] = {}
    made: list[LogReader] = []
    for name in reversed(ordered):
        stream = name.task, name.stream
        reader = kind(folder, name, left.get(stream, keep))
        left[stream] = left.get(stream, keep) - reader.kept
        made.append(reader)
    return made[::-1]


def _open(stack: ExitStack, path: Path) -> BinaryIO | None:
    """A file to read from; None if it is not there, is no plain file, or cannot be read (a loop of links)."""
    try:
        # Never waiting for a writer, as the opening of a pipe does.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return stack.enter_context(open(descriptor, "rb"))


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _before(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - _MARK)
    return os.pread(file.fileno(), offset - start, start)


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
