"""The output of a job's tasks while they run: woken by the kernel, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Self

from tony import clock
from tony.jobs.inotify import FolderWatch
from tony.jobs.log_names import LogName, Selection, find
from tony.jobs.log_reader import LogLine, LogReader, readers
from tony.jobs.partial_lines import LiveReader


class LogTail:
    """Every wanted stream of a job, from the beginning (or the last lines) on. A context manager.

    Args:
        folder: the job's `logs/`; must exist.
        keep: lines of each stream to begin with; None for all.
        live: for somebody who looks on: of lines that overwrite themselves only the newest state, and what has no end
            yet by `due_lines`.
    """

    def __init__(self, folder: Path, selection: Selection, keep: int | None = None, *, live: bool = False) -> None:
        self._folder = folder
        self._kind = LiveReader if live else LogReader
        self._selection = selection
        self._watch = FolderWatch()
        self._watch.add(folder)
        # Whatever is written from here on wakes us; what is there already is read by the first `new_lines`.
        self._readers: dict[LogName, LogReader] = {}
        self._tries: dict[tuple[str, int, str], list[LogReader]] = {}
        self._unended: set[LiveReader] = set()
        for reader in readers(folder, find(folder, selection), keep, self._kind):
            self._add(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()

    def also_watch(self, folder: Path) -> None:
        """Lets `wait_change` end when a file in another folder changes, too."""
        self._watch.add(folder)

    async def wait_change(self) -> AbstractSet[Path] | None:
        """Waits until something was printed; the answer is for `new_lines`."""
        return await self._watch.wait_change()

    def new_lines(self, changed: AbstractSet[Path] | None = None) -> Iterator[LogLine]:
        """What was printed to the files in `changed` (None: to any) since they were read last."""
        for name in self._named(changed):
            yield from self._lines_of(name)

    @property
    def due(self) -> float | None:
        """When `due_lines` should be called, in monotonic seconds; None if nothing waits for its end."""
        return min((reader.due for reader in self._unended if reader.due is not None), default=None)

    def due_lines(self) -> Iterator[LogLine]:
        """What was read and has waited for its line's end long enough."""
        now = clock.monotonic()
        for reader in sorted(self._unended, key=lambda reader: reader.name.order):
            if reader.due is None or reader.due <= now:
                self._unended.discard(reader)
                if reader.due is not None:
                    yield from reader.take()

    def drain(self) -> Iterator[LogLine]:
        """The rest, last lines without an end included. For when no program runs any more."""
        for name in find(self._folder, self._selection):
            yield from self._reader(name).drain()

    def _named(self, changed: AbstractSet[Path] | None) -> list[LogName]:
        if changed is None:
            return find(self._folder, self._selection)
        names = {LogName.parse(path.name) for path in changed}
        return sorted(
            (name for name in names if name is not None and self._selection.takes(name)),
            key=lambda name: name.order,
        )

    def _lines_of(self, name: LogName) -> Iterator[LogLine]:
        if name not in self._readers:
            yield from self._end_earlier(name)
        reader = self._reader(name)
        yield from reader.read()
        if isinstance(reader, LiveReader) and reader.due is not None:
            self._unended.add(reader)

    def _end_earlier(self, name: LogName) -> Iterator[LogLine]:
        """A new try begins: the earlier ones of this stream print no more, so their last words are due."""
        for reader in self._tries.get(_stream(name), ()):
            if reader.name.order < name.order:
                yield from reader.drain()

    def _reader(self, name: LogName) -> LogReader:
        if name not in self._readers:
            self._add(self._kind(self._folder, name))
        return self._readers[name]

    def _add(self, reader: LogReader) -> None:
        self._readers[reader.name] = reader
        self._tries.setdefault(_stream(reader.name), []).append(reader)


def _stream(name: LogName) -> tuple[str, int, str]:
    return name.role, name.index, name.stream
