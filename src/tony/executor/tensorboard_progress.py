"""How far a program is, from what it writes for TensorBoard (`progress_summaries`): read on as the files grow."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tony.executor.progress_listener import Advance, own_name
from tony.executor.tfevents import HEAD, Damaged, TFRecord, is_short, length_of, record
from tony.model.metrics import MOST_OF_A_PROGRAM

#: Folders and files that are looked through, and files that are read.
_MOST_NAMES, _MOST_FILES = 2000, 16
#: Bytes read at a time; records passed over, and such that are read, in one look at one file.
_WINDOW = 64 << 10
_PASSED, _READ = 2000, 100
#: Seconds by which clocks of file systems may be behind.
_CLOCKS = 2.0
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 58


class TensorBoardProgress:
    """The event files below one folder that have grown since the program was started.

    Args:
        since: when that was, seconds since 1970.
    """

    def __init__(self, folder: Path, since: float) -> None:
        self._folder = folder
        self._since = since - _CLOCKS
        self._files: dict[str, _File] = {}

    def look(self) -> Advance | None:
        """What has come since the last look; None if nothing has. Waits for disks."""
        step: float | None = None
        metrics: dict[str, float] = {}
        for path in self._living():
            file = self._files.setdefault(path, _File(path, _run_of(path, self._folder)))
            for scalars in file.look():
                step = max(step or 0.0, float(scalars[0]))
                metrics.update(scalars[1])
        if step is None:
            return None
        kept = sorted(metrics, key=lambda name: "loss" not in name)[:MOST_OF_A_PROGRAM]
        return Advance(step, None, {name: metrics[name] for name in kept})

    def _living(self) -> list[str]:
        """The files that were written to, the latest ones last."""
        found = []
        for path in self._named():
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if status.st_mtime >= self._since:
                    found.append((status.st_mtime, path))
        return [path for _, path in sorted(found)[-_MOST_FILES:]]

    def _named(self) -> Iterator[str]:
        seen = 0
        for folder, folders, names in os.walk(self._folder):
            folders.sort()
            for name in names:
                if "tfevents" in name:
                    yield os.path.join(folder, name)
            seen += len(folders) + len(names)
            if seen > _MOST_NAMES:
                return


class _File:
    """One file, and how far it was read. What is half written is left for the next look."""

    def __init__(self, path: str, run: str) -> None:
        self._path = path
        self._run = run
        self._place = 0
        self._damaged = False

    def look(self) -> list[tuple[int, dict[str, float]]]:
        """Steps and numbers of the newest events that nobody has seen yet, oldest first."""
        if self._damaged:
            return []
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return []
        try:
            records = self._records(descriptor)
        except (OSError, Damaged):
            # A disk's trouble passes; what is no event file never becomes one.
            self._damaged = self._place == 0
            self._place = os.fstat(descriptor).st_size
            return []
        finally:
            os.close(descriptor)
        found = [scalars for each in records if (scalars := each.scalars())]
        return [
            (each.step, {name: value for tag, value in each.values.items() if (name := self._name(tag))})
            for each in found
        ]

    def _records(self, descriptor: int) -> deque[TFRecord]:
        """The last of the records that came; of many the others are passed over."""
        found: deque[TFRecord] = deque(maxlen=_READ)
        size = os.fstat(descriptor).st_size
        if size < self._place:
            self._place = 0  # it was begun anew
        window, begin = b"", 0
        for _ in range(_PASSED):
            at = self._place - begin
            if at + HEAD > len(window):
                window, begin, at = os.pread(descriptor, _WINDOW, self._place), self._place, 0
                if len(window) < HEAD:
                    return found
            length = length_of(window[at : at + HEAD])
            if self._place + HEAD + length + 4 > size:
                return found
            if is_short(length):
                if at + HEAD + length + 4 > len(window):
                    window, begin, at = os.pread(descriptor, _WINDOW, self._place), self._place, 0
                found.append(record(window[at + HEAD : at + HEAD + length + 4]))
            self._place += HEAD + length + 4
        if size - self._place > _WINDOW:
            self._catch_up(descriptor, size)
        return found

    def _catch_up(self, descriptor: int, size: int) -> None:
        """It grows faster than we read: goes on close to its end, where a record begins."""
        near = os.pread(descriptor, _WINDOW, size - _WINDOW)
        for at in range(len(near) - HEAD):
            if near[at + 4 : at + 8] == b"\0\0\0\0":
                with contextlib.suppress(Damaged):
                    length_of(near[at : at + HEAD])
                    self._place = size - _WINDOW + at
                    return

    def _name(self, tag: str) -> str:
        """What a tag is called among our series; empty if it cannot be."""
        named = (f"{self._run}.{tag}" if self._run else tag).replace("/", ".")
        plain = _NO_NAME.sub("_", named).strip("._-")
        with contextlib.suppress(ValueError):
            return own_name(plain[:_LONGEST_NAME])
        return ""


def _run_of(path: str, folder: Path) -> str:
    """What TensorBoard calls a run, without what is above its last folder."""
    parent = Path(path).parent
    return "" if parent == folder else parent.name
