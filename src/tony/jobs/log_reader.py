"""Log files read line by line, incrementally and across rotations, with the time of each line."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from tony.jobs.log_files import Selection
from tony.jobs.log_lines import MAX_LINE_BYTES, LineSplitter, LogLine
from tony.linux.time_index import PER_SECOND, build_index_path, find_offset, read_times
from tony.model.log_name import LogName

_ALL = Selection()
_CHUNK = 256 * 1024
#: The same for each of many streams that are merged, and for all of them together.
_MIN_CHUNK = 4 * 1024
_MERGED_BYTES = 8 * 1024 * 1024
#: Bytes before the last position that must still match: inode numbers of removed files are reused immediately.
_CONTEXT_BYTES = 64


class LogReader(LineSplitter):
    """Reads one stream's file incrementally, across rotations.

    Files are not kept open between reads, so that a thousand tasks do not need a thousand descriptors.

    Args:
        keep: number of existing lines to begin with; None for all.
        selection: whether times are read, and from which time on lines are.

    Attributes:
        kept: how many of those lines exist; 0 without `keep`.
        chunk_bytes: bytes that are read, and whose lines are kept in memory, at once.
    """

    def __init__(self, folder: Path, name: LogName, keep: int | None = None, selection: Selection = _ALL) -> None:
        super().__init__(name)
        self.kept = 0
        self.chunk_bytes = _CHUNK
        self._path = folder / name.file
        self._rotated = name.build_rotated_path(folder)
        self._inode: int | None = None
        self._offset = 0
        self._context = b""
        self._since = selection.since
        self._has_times = selection.has_times or self._since is not None
        if self._since is not None:
            self._skip_to_time(int(self._since * PER_SECOND))
        if keep is not None:
            self._skip_to_last(keep)

    def read(self) -> Iterator[LogLine]:
        """Yield complete lines printed since the last call; an incomplete one is kept for the next call."""
        while True:
            with ExitStack() as stack:
                data, times = self._read_chunk(stack)
            if not data:
                return
            self._offset += len(data)
            self._context = (self._context + data)[-_CONTEXT_BYTES:]
            lines = self.split(data, times)
            yield from lines if self._since is None else self._select_recent(lines, self._since)

    def drain(self) -> Iterator[LogLine]:
        """Yield the rest, including an incomplete last line, when no more output will follow."""
        yield from self.read()
        yield from self.take()

    def _select_recent(self, lines: Iterable[LogLine], since: float) -> Iterator[LogLine]:
        return (line for line in lines if line.at is None or line.at >= since)

    def _read_chunk(self, stack: ExitStack) -> tuple[bytes, Sequence[tuple[int, int]]]:
        """Return the next bytes and their times; none at the end. Moves to the beginning of the file that has them."""
        files = self._open(stack)
        are_known = [self._is_known_file(file) for file in files]
        if any(are_known):
            files = files[are_known.index(True) :]
        # None is the known file at the first read and after two rotations: then start with the oldest one left.
        for number, file in enumerate(files):
            if number or not any(are_known):
                self._set_position(file, 0)
            data = os.pread(file.fileno(), self.chunk_bytes, self._offset)
            if data:
                return data, self._read_times(stack, file, len(data)) if self._has_times else ()
        return b"", ()

    def _read_times(self, stack: ExitStack, file: BinaryIO, size: int) -> Sequence[tuple[int, int]]:
        index = self._open_index(stack, file)
        if index is None:
            return ()
        found = read_times(index, self._offset, self._offset + size)
        return [(offset - self._offset, moment) for offset, moment in found]

    def _open_index(self, stack: ExitStack, file: BinaryIO) -> int | None:
        """Return a descriptor of a file's index of times; None if it has none, or is being rotated."""
        for path in (self._path, self._rotated):
            index = _open(stack, build_index_path(path))
            if index is not None and _has_inode(path, _read_inode(file)):  # checked last: it was not rotated meanwhile
                return index.fileno()
        return None

    def _open(self, stack: ExitStack) -> list[BinaryIO]:
        """Open the stream's files, older first.

        The newer is opened first: if a rotation happens in between, both are the same file, and nothing is skipped.
        """
        newer = _open(stack, self._path)
        older = _open(stack, self._rotated)
        if newer is not None and older is not None and _read_inode(newer) == _read_inode(older):
            older = None
        return [file for file in (older, newer) if file is not None]

    def _is_known_file(self, file: BinaryIO) -> bool:
        """Return True if this is the file in which reading stopped last."""
        return (
            _read_inode(file) == self._inode
            and os.fstat(file.fileno()).st_size >= self._offset
            and _read_context(file, self._offset) == self._context
        )

    def _set_position(self, file: BinaryIO, offset: int) -> None:
        self._inode, self._offset, self._context = _read_inode(file), offset, _read_context(file, offset)

    def _skip_to_last(self, keep: int) -> None:
        first = {} if self._inode is None else {self._inode: self._offset}
        with ExitStack() as stack:
            for file in reversed(self._open(stack)):
                inode = _read_inode(file)
                start, found = _start_of_last(file, keep - self.kept, first.get(inode, 0))
                self._set_position(file, start)
                self.kept += found
                if self.kept >= keep or inode in first:
                    return

    def _skip_to_time(self, moment: int) -> None:
        """Begin with the file that has the first line printed at or after a time, near that line."""
        with ExitStack() as stack:
            for file in self._open(stack):
                index = self._open_index(stack, file)
                found = 0 if index is None else find_offset(index, moment)
                size = os.fstat(file.fileno()).st_size
                self._set_position(file, size if found is None else _find_line_start(file, min(found, size)))
                if found is not None:
                    return


def open_readers(
    folder: Path,
    names: Collection[LogName],
    keep: int | None = None,
    selection: Selection = _ALL,
    kind: type[LogReader] = LogReader,
) -> list[LogReader]:
    """Return a reader for each file, sorted.

    Args:
        keep: number of existing lines of each task's stream to begin with, from earlier task attempts if necessary.
    """
    ordered = sorted(names, key=lambda name: name.order)
    if keep is None:
        return [kind(folder, name, None, selection) for name in ordered]
    left: dict[tuple[str, str], int] = {}
    made: list[LogReader] = []
    for name in reversed(ordered):
        stream = name.task, name.stream
        reader = kind(folder, name, left.get(stream, keep), selection)
        left[stream] = left.get(stream, keep) - reader.kept
        made.append(reader)
    return made[::-1]


def limit_chunks(readers: Collection[LogReader]) -> None:
    """Let readers whose lines are merged read so little at once that all together need little memory."""
    for reader in readers:
        reader.chunk_bytes = min(_CHUNK, max(_MIN_CHUNK, _MERGED_BYTES // len(readers)))


def _open(stack: ExitStack, path: Path) -> BinaryIO | None:
    """Open a file for reading; return None if it does not exist, is not a regular file, or is a loop of links."""
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer.
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


def _read_inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _read_context(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - _CONTEXT_BYTES)
    return os.pread(file.fileno(), offset - start, start)


def _start_of_last(file: BinaryIO, count: int, least: int = 0) -> tuple[int, int]:
    """Return the offset of the last `count` lines of a file from `least` on, and the number of lines from there on."""
    position = end = file.seek(0, os.SEEK_END)
    if count <= 0 or end <= least:
        return end, 0
    found = 0
    while position > least:
        size = min(_CHUNK, position - least)
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
    return least, found + 1


def _find_line_start(file: BinaryIO, offset: int) -> int:
    """Return the offset of the line that has a byte; that of the byte if the line is too long."""
    start = max(0, offset - MAX_LINE_BYTES)
    before = os.pread(file.fileno(), offset - start, start)
    return start + before.rfind(b"\n") + 1 if start == 0 or b"\n" in before else offset


def _has_inode(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except OSError:
        return False
