"""Log files read line by line, incrementally and across rotations, with the time of each line."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tony.jobs.log_files import Selection
from tony.jobs.log_lines import MAX_LINE_BYTES, LineSplitter, LogLine
from tony.jobs.log_parts import LogPart, open_parts
from tony.linux.time_index import PER_SECOND, find_offset, read_times
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
        self._open_file = partial(_open_file, folder)
        self._inode: tuple[int, int] | None = None
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
        parts = open_parts(stack, self._open_file, self.name, has_times=self._has_times)
        are_known = [self._is_known_part(part) for part in parts]
        if any(are_known):
            parts = parts[are_known.index(True) :]
        # None is the known one at the first read and after two rotations: then start with the oldest one left.
        for number, part in enumerate(parts):
            if number or not any(are_known):
                self._set_position(part, 0)
            data = os.pread(part.descriptor, self.chunk_bytes, self._offset)
            if data:
                return data, self._read_times(part, len(data))
        return b"", ()

    def _read_times(self, part: LogPart, size: int) -> Sequence[tuple[int, int]]:
        if part.times is None:
            return ()
        found = read_times(part.times, self._offset, self._offset + size)
        return [(offset - self._offset, moment) for offset, moment in found]

    def _is_known_part(self, part: LogPart) -> bool:
        """Return True if this is the file in which reading stopped last."""
        return (
            part.inode == self._inode
            and part.size >= self._offset
            and _read_context(part, self._offset) == self._context
        )

    def _set_position(self, part: LogPart, offset: int) -> None:
        self._inode, self._offset, self._context = part.inode, offset, _read_context(part, offset)

    def _skip_to_last(self, keep: int) -> None:
        first = {} if self._inode is None else {self._inode: self._offset}
        with ExitStack() as stack:
            for part in reversed(open_parts(stack, self._open_file, self.name, has_times=False)):
                start, found = _start_of_last(part, keep - self.kept, first.get(part.inode, 0))
                self._set_position(part, start)
                self.kept += found
                if self.kept >= keep or part.inode in first:
                    return

    def _skip_to_time(self, moment: int) -> None:
        """Begin with the file that has the first line printed at or after a time, near that line."""
        with ExitStack() as stack:
            for part in open_parts(stack, self._open_file, self.name):
                found = 0 if part.times is None else find_offset(part.times, moment)
                start = part.size if found is None else _find_line_start(part, min(found, part.size))
                self._set_position(part, start)
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


def _open_file(folder: Path, name: str) -> int | None:
    """Open a file for reading; return None if it does not exist, is not a regular file, or is a loop of links."""
    try:
        # O_NONBLOCK: opening a pipe would wait for a writer.
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _read_context(part: LogPart, offset: int) -> bytes:
    start = max(0, offset - _CONTEXT_BYTES)
    return os.pread(part.descriptor, offset - start, start)


def _start_of_last(part: LogPart, count: int, least: int = 0) -> tuple[int, int]:
    """Return the offset of the last `count` lines of a file from `least` on, and the number of lines from there on."""
    position = end = part.size
    if count <= 0 or end <= least:
        return end, 0
    found = 0
    while position > least:
        size = min(_CHUNK, position - least)
        position -= size
        block = os.pread(part.descriptor, size, position)
        if position + size == end and block.endswith(b"\n"):
            block = block[:-1]
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == count:
                return position + at + 1, count
    return least, found + 1


def _find_line_start(part: LogPart, offset: int) -> int:
    """Return the offset of the line that has a byte; that of the byte if the line is too long."""
    start = max(0, offset - MAX_LINE_BYTES)
    before = os.pread(part.descriptor, offset - start, start)
    return start + before.rfind(b"\n") + 1 if start == 0 or b"\n" in before else offset
