"""Reads the progress of a program from its TensorBoard event files (`progress_summaries`) as they grow."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tony import clock
from tony.executor.metrics.progress_listener import Advance, qualify_name
from tony.executor.metrics.tfevents import (
    HEAD,
    DamagedFileError,
    Scalars,
    TFRecord,
    is_short,
    parse_record,
    read_length,
)
from tony.model.metric_definitions import MAX_PROGRAM_SERIES

#: Directory entries that are listed.
_MAX_NAMES = 2000
#: Files that are read.
_MAX_FILES = 16
#: Bytes read at a time.
_WINDOW = 64 << 10
#: Records of one file that are scanned, and parsed, per poll.
_MAX_SCANNED = 2000
_MAX_PARSED = 100
#: Records of one file that are kept to find its first step; other kinds of records may precede it.
_MAX_FIRST = 20
#: Seconds by which clocks of file systems may be behind.
_CLOCK_SKEW_SECONDS = 2.0
_INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME_CHARACTERS = 58


class TensorBoardProgress:
    """The event files below one folder that were written since a time (seconds since 1970).

    Attributes:
        first: the first step in them and its time (`tony.clock.monotonic`); None if it is not known.
    """

    def __init__(self, folder: Path, since: float) -> None:
        self._folder = folder
        self._since = since - _CLOCK_SKEW_SECONDS
        self._files: dict[str, _EventFile] = {}
        self.first: tuple[float, float] | None = None

    def poll(self) -> Advance | None:
        """Return the progress since the last poll; None if there is none. Blocks on disks."""
        step: float | None = None
        metrics: dict[str, float] = {}
        for path in self._find_recent_files():
            file = self._files.setdefault(path, _EventFile(path, _run_of(path, self._folder)))
            for scalars in file.poll():
                step = max(step or 0.0, float(scalars[0]))
                metrics.update(scalars[1])
        if step is None:
            return None
        self.first = self.first or self._find_first()
        kept = sorted(metrics, key=lambda name: "loss" not in name)[:MAX_PROGRAM_SERIES]
        return Advance(step, None, {name: metrics[name] for name in kept})

    def _find_first(self) -> tuple[float, float] | None:
        firsts = [first for file in self._files.values() if (first := file.find_first(self._since))]
        first = min(firsts, key=lambda each: each.step, default=None)
        if first is None:
            return None
        return float(first.step), clock.monotonic() - max(0.0, clock.wall() - first.written_at)

    def _find_recent_files(self) -> list[str]:
        """Return the recently written files, the latest last."""
        found = []
        for path in self._iterate_event_files():
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if status.st_mtime >= self._since:
                    found.append((status.st_mtime, path))
        return [path for _, path in sorted(found)[-_MAX_FILES:]]

    def _iterate_event_files(self) -> Iterator[str]:
        seen = 0
        for folder, folders, names in os.walk(self._folder):
            folders.sort()
            for name in names:
                if "tfevents" in name:
                    yield os.path.join(folder, name)
            seen += len(folders) + len(names)
            if seen > _MAX_NAMES:
                return


class _EventFile:
    """One file and the position up to which it was read. Half-written records are left for the next poll."""

    def __init__(self, path: str, run: str) -> None:
        self._path = path
        self._run = run
        self._offset = 0
        self._damaged = False
        self._first_records: list[TFRecord] = []

    def find_first(self, since: float) -> Scalars | None:
        """Return the first of its scalars, unless that was written before a time (seconds since 1970)."""
        first = next((scalars for record in self._first_records if (scalars := record.parse_scalars())), None)
        return first if first and first.written_at >= since else None

    def poll(self) -> list[tuple[int, dict[str, float]]]:
        """Return steps and metrics of the events since the last poll, oldest first."""
        if self._damaged:
            return []
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return []
        try:
            records = self._read_records(descriptor)
        except (OSError, DamagedFileError):
            # A disk error may pass; a file that is no event file is never read again.
            self._damaged = self._offset == 0
            self._offset = os.fstat(descriptor).st_size
            return []
        finally:
            os.close(descriptor)
        found = [scalars for record in records if (scalars := record.parse_scalars())]
        return [
            (each.step, {name: value for tag, value in each.values.items() if (name := self._build_metric_name(tag))})
            for each in found
        ]

    def _read_records(self, descriptor: int) -> deque[TFRecord]:
        """Return the last of the new records; if there are many, the earlier ones are skipped."""
        found: deque[TFRecord] = deque(maxlen=_MAX_PARSED)
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            self._offset = 0  # it was truncated
        window, begin = b"", 0
        for _ in range(_MAX_SCANNED):
            at = self._offset - begin
            if at + HEAD > len(window):
                window, begin, at = os.pread(descriptor, _WINDOW, self._offset), self._offset, 0
                if len(window) < HEAD:
                    return found
            length = read_length(window[at : at + HEAD])
            if self._offset + HEAD + length + 4 > size:
                return found
            if is_short(length):
                if at + HEAD + length + 4 > len(window):
                    window, begin, at = os.pread(descriptor, _WINDOW, self._offset), self._offset, 0
                found.append(parse_record(window[at + HEAD : at + HEAD + length + 4]))
                if len(self._first_records) < _MAX_FIRST:
                    self._first_records.append(found[-1])
            self._offset += HEAD + length + 4
        if size - self._offset > _WINDOW:
            self._catch_up(descriptor, size)
        return found

    def _catch_up(self, descriptor: int, size: int) -> None:
        """Skip to a record near the end: the file grows faster than it is read."""
        near = os.pread(descriptor, _WINDOW, size - _WINDOW)
        for at in range(len(near) - HEAD):
            if near[at + 4 : at + 8] == b"\0\0\0\0":
                with contextlib.suppress(DamagedFileError):
                    read_length(near[at : at + HEAD])
                    self._offset = size - _WINDOW + at
                    return

    def _build_metric_name(self, tag: str) -> str:
        """Return the metric name for a tag; empty if it cannot be one."""
        named = (f"{self._run}.{tag}" if self._run else tag).replace("/", ".")
        plain = _INVALID_CHARACTERS.sub("_", named).strip("._-")
        with contextlib.suppress(ValueError):
            return qualify_name(plain[:_MAX_NAME_CHARACTERS])
        return ""


def _run_of(path: str, folder: Path) -> str:
    """Return TensorBoard's name of the run, without the folders above its last one."""
    parent = Path(path).parent
    return "" if parent == folder else parent.name
