"""The selected output of a job, followed while it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from pathlib import Path
from typing import Self

from tony import clock
from tony.jobs.log_files import Selection, find_log_files, find_newest_sessions
from tony.jobs.log_lines import LogLine, merge_lines
from tony.jobs.log_reader import LogReader, limit_chunks, open_readers
from tony.linux.inotify import ChangeWatch
from tony.model.log_name import LogName

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
        for reader in open_readers(folder, find_log_files(folder, selection), keep, selection, self._kind):
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

    def take_changes(self) -> AbstractSet[Path] | None:
        """Like `wait_change`, without waiting."""
        return self._watch.take_changes()

    def read_new_lines(self, changed: AbstractSet[Path] | None = None) -> Iterator[LogLine]:
        """Yield new output of the files in `changed` (None: of all) since they were last read, in order if timed."""
        yield from self._merge([self._read_lines(name) for name in self._list_changed(changed)])

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
        """Yield the rest, including incomplete lines, after all programs have exited; in order if timed."""
        names = {*self._readers, *find_log_files(self._folder, self._selection)}
        yield from self._merge([self._open_reader(name).drain() for name in sorted(names, key=lambda name: name.order)])

    def _merge(self, streams: list[Iterator[LogLine]]) -> Iterator[LogLine]:
        if not self._selection.has_times or not streams:
            return chain.from_iterable(streams)
        limit_chunks(self._readers.values())
        return merge_lines(streams)

    def _list_changed(self, changed: AbstractSet[Path] | None) -> list[LogName]:
        if changed is None:
            return find_log_files(self._folder, self._selection)
        names = {LogName.parse(path.name) for path in changed}
        found = self._selection.select(name for name in names if name is not None)
        newest = find_newest_sessions(self._readers) if self._selection.is_newest_only else {}
        return [name for name in found if name.session >= newest.get(name.task, 0)]

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
            self._add(self._kind(self._folder, name, None, self._selection))
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
                yield LogLine(self.name, newest, line.at)
        if self._incomplete_since is None and self.unfinished:
            self._incomplete_since = clock.monotonic()

    def take(self) -> Iterator[LogLine]:
        """Yield the incomplete line read so far, if any."""
        self._incomplete_since = None
        for line in super().take():
            newest = _find_last_state(line.data)
            if newest:
                self._is_continued = True
                yield LogLine(self.name, newest, line.at)


def _find_last_state(data: bytes) -> bytes:
    """Return the last non-blank state of a line that overwrites itself."""
    if b"\r" not in data:
        return data
    states = (state for state in reversed(data.split(b"\r")) if state.strip())
    return next(states, b"")
