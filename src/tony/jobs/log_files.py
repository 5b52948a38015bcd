"""Log files of tasks: selected by task, stream and session, read incrementally across rotations, and followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from tony import clock
from tony.errors import UserError
from tony.linux.inotify import ChangeWatch
from tony.model.ids import TaskId
from tony.model.log_name import STREAMS, LogName
from tony.name_suggestions import suggest_names

#: Tasks named in an error message.
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileInfo:
    """One output stream of one task attempt.

    Attributes:
        task: `worker:0`.
        stream: `out` or `err`.
        size: bytes available; rotated parts are not included.
    """

    name: str
    task: str
    session: int
    try_: int
    stream: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects log files.

    Attributes:
        tasks: such as `worker:0`; None for all.
        streams: `out`, `err`.
        session: only this session; None for all.
    """

    tasks: Collection[str] | None = None
    streams: Collection[str] = STREAMS
    session: int | None = None

    def matches(self, name: LogName) -> bool:
        """Return True if a file is selected."""
        return (
            (self.tasks is None or name.task in self.tasks)
            and name.stream in self.streams
            and self.session in (None, name.session)
        )


def select_named_tasks(job: str, tasks: Sequence[TaskId], words: Iterable[TaskId | str]) -> frozenset[str] | None:
    """Return the tasks named by `words`, by task (`worker:0`) or role; None, meaning all, without words.

    Raises:
        UserError: the job has no such task.
    """
    chosen: set[str] = set()
    for word in map(str, words):
        matching = {str(task) for task in tasks if word in (str(task), task.role)}
        if not matching:
            shown = ", ".join(map(str, tasks[:_MAX_SHOWN])) + (", ..." if len(tasks) > _MAX_SHOWN else "")
            roles = {task.role for task in tasks}
            names = () if word.partition(":")[0] in roles else [*roles, *map(str, tasks)]
            raise UserError(f"job {job} has no task {word!r}; {suggest_names(word, names, f'it has {shown}')}")
        chosen |= matching
    return frozenset(chosen) or None


def select_one_task(job: str, tasks: Sequence[TaskId], word: TaskId | str) -> TaskId:
    """Return the task named by `word`: `worker:0`, or a role that has one task.

    Raises:
        UserError: the job has no such task, or the role has several.
    """
    found = select_named_tasks(job, tasks, (word,)) or frozenset()
    if len(found) > 1:
        raise UserError(f"role {word} has {len(found)} tasks; name one of them: {word}:0")
    return TaskId.parse(next(iter(found)))


def find_log_files(folder: Path, selection: Selection) -> list[LogName]:
    """Return the selected log files in `folder`, sorted."""
    try:
        names = {LogName.parse(path.name) for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    matching = [name for name in names if name is not None and selection.matches(name)]
    return sorted(matching, key=lambda name: name.order)


#: A longer incomplete line is returned in pieces, so that endless lines do not fill the memory.
MAX_LINE_BYTES = 64 * 1024
_CHUNK = 256 * 1024
#: Maximum lines and approximate bytes passed on at once.
_PORTION_LINES = 500
_PORTION_BYTES = 1024 * 1024
#: Bytes before the last position that must still match: inode numbers of removed files are reused immediately.
_CONTEXT_BYTES = 64


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of output.

    Attributes:
        data: the bytes as printed, without the newline.
    """

    name: LogName
    data: bytes

    @property
    def text(self) -> str:
        """The line as text, without a trailing carriage return; bytes that are not UTF-8 are replaced."""
        return self.data.removesuffix(b"\r").decode("utf-8", errors="replace")


class LineSplitter:
    """Splits the data of one stream into lines, and keeps an incomplete one."""

    def __init__(self, name: LogName) -> None:
        self.name = name
        self._incomplete = b""

    def split(self, data: bytes) -> Iterator[LogLine]:
        """Yield the lines that further data completes, and pieces of one that is too long."""
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            yield LogLine(self.name, line)
        while len(self._incomplete) > MAX_LINE_BYTES:
            piece, self._incomplete = self._incomplete[:MAX_LINE_BYTES], self._incomplete[MAX_LINE_BYTES:]
            yield LogLine(self.name, piece)

    def take(self) -> Iterator[LogLine]:
        """Yield the incomplete line read so far, if any."""
        if self._incomplete:
            rest, self._incomplete = self._incomplete, b""
            yield LogLine(self.name, rest)

    @property
    def unfinished(self) -> bool:
        """True if an incomplete line was read."""
        return bool(self._incomplete)


class LogReader(LineSplitter):
    """Reads one stream's file incrementally, across rotations.

    Files are not kept open between reads, so that a thousand tasks do not need a thousand descriptors.

    Args:
        keep: number of existing lines to begin with; None for all.

    Attributes:
        kept: how many of those lines exist; 0 without `keep`.
    """

    def __init__(self, folder: Path, name: LogName, keep: int | None = None) -> None:
        super().__init__(name)
        self.kept = 0
        self._path = folder / name.file
        self._rotated = name.build_rotated_path(folder)
        self._inode: int | None = None
        self._offset = 0
        self._context = b""
        if keep is not None:
            self._skip_to_last(keep)

    def read(self) -> Iterator[LogLine]:
        """Yield complete lines printed since the last call; an incomplete one is kept for the next call."""
        with ExitStack() as stack:
            files = self._open(stack)
            are_known = [self._is_known_file(file) for file in files]
            if any(are_known):
                files = files[are_known.index(True) :]
            # None is the known file at the first read and after two rotations: then start with the oldest one left.
            for number, file in enumerate(files):
                yield from self._read_on(file, self._offset if number == 0 and any(are_known) else 0)

    def drain(self) -> Iterator[LogLine]:
        """Yield the rest, including an incomplete last line, when no more output will follow."""
        yield from self.read()
        yield from self.take()

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

    def _read_on(self, file: BinaryIO, offset: int) -> Iterator[LogLine]:
        self._set_position(file, offset)
        file.seek(offset)
        while part := file.read(_CHUNK):
            self._offset += len(part)
            self._context = (self._context + part)[-_CONTEXT_BYTES:]
            yield from self.split(part)

    def _set_position(self, file: BinaryIO, offset: int) -> None:
        self._inode, self._offset, self._context = _read_inode(file), offset, _read_context(file, offset)

    def _skip_to_last(self, keep: int) -> None:
        with ExitStack() as stack:
            for file in reversed(self._open(stack)):
                start, found = _start_of_last(file, keep - self.kept)
                self._set_position(file, start)
                self.kept += found
                if self.kept >= keep:
                    return


def group_lines(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    """Group lines into portions, bounded in count and bytes."""
    portion: list[LogLine] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line.data)
        if len(portion) >= _PORTION_LINES or size >= _PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def open_readers(
    folder: Path, names: Collection[LogName], keep: int | None = None, kind: type[LogReader] = LogReader
) -> list[LogReader]:
    """Return a reader for each file, sorted.

    Args:
        keep: number of existing lines of each task's stream to begin with, from earlier task attempts if necessary.
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


def _start_of_last(file: BinaryIO, count: int) -> tuple[int, int]:
    """Return the offset of the last `count` lines of a file, and the number of lines from there on."""
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


#: Seconds after which an incomplete line is shown; also the shortest interval between two states of a progress bar.
PARTIAL_LINE_SECONDS = 1.0


class LogTail:
    """All selected streams of a job. A context manager.

    Args:
        folder: the job's `logs/`; must exist.
        keep: lines of each stream to begin with; None for all.
        live: for display: only the newest state of lines that overwrite themselves, and incomplete lines by
            `take_due_lines`.
    """

    def __init__(self, folder: Path, selection: Selection, keep: int | None = None, *, live: bool = False) -> None:
        self._folder = folder
        self._kind = LiveReader if live else LogReader
        self._selection = selection
        self._watch = ChangeWatch()
        self._watch.add(folder)
        # Later writes wake `wait_change`; what exists already is read by the first `read_new_lines`.
        self._readers: dict[LogName, LogReader] = {}
        self._attempts: dict[tuple[str, int, str], list[LogReader]] = {}
        self._incomplete: set[LiveReader] = set()
        for reader in open_readers(folder, find_log_files(folder, selection), keep, self._kind):
            self._add(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    def watch_folder(self, folder: Path) -> None:
        """Let `wait_change` return for changes in another folder, too."""
        self._watch.add(folder)

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Wait for new output; the result is for `read_new_lines`."""
        return await self._watch.wait_change()

    def read_new_lines(self, changed: AbstractSet[Path] | None = None) -> Iterator[LogLine]:
        """Yield new output of the files in `changed` (None: of all) since they were last read."""
        for name in self._list_changed(changed):
            yield from self._read_lines(name)

    @property
    def due(self) -> float | None:
        """The time to call `take_due_lines`, in monotonic seconds; None if there are no incomplete lines."""
        return min((reader.due for reader in self._incomplete if reader.due is not None), default=None)

    def take_due_lines(self) -> Iterator[LogLine]:
        """Yield incomplete lines that have waited for their end long enough."""
        now = clock.monotonic()
        for reader in sorted(self._incomplete, key=lambda reader: reader.name.order):
            if reader.due is None or reader.due <= now:
                self._incomplete.discard(reader)
                if reader.due is not None:
                    yield from reader.take()

    def drain(self) -> Iterator[LogLine]:
        """Yield the rest, including incomplete lines, after all programs have exited."""
        for name in find_log_files(self._folder, self._selection):
            yield from self._open_reader(name).drain()

    def _list_changed(self, changed: AbstractSet[Path] | None) -> list[LogName]:
        if changed is None:
            return find_log_files(self._folder, self._selection)
        names = {LogName.parse(path.name) for path in changed}
        return sorted(
            (name for name in names if name is not None and self._selection.matches(name)),
            key=lambda name: name.order,
        )

    def _read_lines(self, name: LogName) -> Iterator[LogLine]:
        if name not in self._readers:
            yield from self._drain_earlier_attempts(name)
        reader = self._open_reader(name)
        yield from reader.read()
        if isinstance(reader, LiveReader) and reader.due is not None:
            self._incomplete.add(reader)

    def _drain_earlier_attempts(self, name: LogName) -> Iterator[LogLine]:
        """Drain earlier task attempts of this stream, which print no more once a new one starts."""
        for reader in self._attempts.get(_stream(name), ()):
            if reader.name.order < name.order:
                yield from reader.drain()

    def _open_reader(self, name: LogName) -> LogReader:
        if name not in self._readers:
            self._add(self._kind(self._folder, name))
        return self._readers[name]

    def _add(self, reader: LogReader) -> None:
        self._readers[reader.name] = reader
        self._attempts.setdefault(_stream(reader.name), []).append(reader)


def _stream(name: LogName) -> tuple[str, int, str]:
    return name.role, name.index, name.stream


class LiveReader(LogReader):
    """Reads lines; of those that overwrite themselves (`\\r 25%\\r 50%`) only the newest state.

    A line that stays incomplete for a while is shown so far; its continuation is then a line of its own.
    """

    _incomplete_since: float | None = None
    _is_continued = False

    @property
    def due(self) -> float | None:
        """The time to call `take`, in monotonic seconds; None if there is no incomplete line."""
        return None if self._incomplete_since is None else self._incomplete_since + PARTIAL_LINE_SECONDS

    def read(self) -> Iterator[LogLine]:
        """Yield new lines, as `LogReader.read` does."""
        for line in super().read():
            self._incomplete_since = None
            begun, self._is_continued = self._is_continued, False
            newest = _find_last_state(line.data)
            if newest or not begun:  # of a line that was shown already, nothing may be left but its end
                yield LogLine(self.name, newest)
        if self._incomplete_since is None and self.unfinished:
            self._incomplete_since = clock.monotonic()

    def take(self) -> Iterator[LogLine]:
        """Yield the incomplete line read so far, if any."""
        self._incomplete_since = None
        for line in super().take():
            newest = _find_last_state(line.data)
            if newest:
                self._is_continued = True
                yield LogLine(self.name, newest)


def _find_last_state(data: bytes) -> bytes:
    """Return the last non-blank state of a line that overwrites itself."""
    if b"\r" not in data:
        return data
    states = (state for state in reversed(data.split(b"\r")) if state.strip())
    return next(states, b"")
