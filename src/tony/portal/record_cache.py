"""Records that lie elsewhere, brought here to be looked at: each in a folder like any other, as long as it is in use.

Of a record of the original a folder as ours would have left it is made. What is brought is bounded; of a log that is
longer than that the rest stays where it is. Of the logs only small ones come along, the others when somebody looks at
their task: a job's may have terabytes, and its page shows none of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tony.dataclass import replace
from tony.errors import RecordError, StorageError
from tony.history.event_log import FORMAT, LONGEST_LISTED_LOG_OF_OTHERS, VERSION, Header, LogWriter
from tony.history.json_files import LONGEST_OF_OTHERS, check_json_of_others, decoding, write_json
from tony.jobs.log_names import LogName
from tony.model.codec import Json, to_plain
from tony.model.ids import JOB_ID
from tony.model.json_text import BadJson, loads
from tony.model.layout import JobFolder
from tony.portal import jhist_reader
from tony.portal.index_entry import IndexEntry
from tony.portal.jhist_reader import Original
from tony.storage.store import FileStore, Item, joined

#: Files of a record that are brought, and bytes of each at most.
_WHOLE = {"job.json": LONGEST_OF_OTHERS, "am.log": 16 << 20, "metrics.db": 1 << 30, "pinned.json": 1 << 16}
_EVENTS = re.compile(r"(events\.\d{1,9})(?:\.closed)?\.jsonl", re.ASCII)
#: Files of an event log: one for each attempt.
_MOST_SEGMENTS = 1000
#: Bytes of one log, of the logs of one task, and of all logs of one record that are here at one time.
_MOST_LOG = 256 << 20
_MOST_TASK_LOG_BYTES = 2 << 30
_MOST_RECORD_LOG_BYTES = 8 << 30
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)
#: Records that stay here, and logs of one.
_KEPT, _MOST_LOGS = 50, 20_000
#: Bytes of what stays here, without the logs.
_MOST_BYTES = 8 << 30
#: Bytes of the logs that come along, all together, and how many of them: each is a call.
_ALONG, _MOST_ALONG = 4 << 20, 20


class RecordCache:
    """What was brought here.

    Args:
        folder: in which it lies; nobody else's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder(self, entry: IndexEntry, identity: tuple[int, ...] = ()) -> JobFolder:
        """Where a record will be, once it was brought.

        Args:
            identity: of its directory, on this machine: what was brought of another one at the same place is not used.
        """
        place = hashlib.sha256(repr((entry.place, *identity)).encode()).hexdigest()[:12]
        return JobFolder(self._folder / place / "jobs" / entry.head.job)

    def bring(self, store: FileStore, entry: IndexEntry, folder: JobFolder, *, logs: bool = True) -> None:
        """Brings what is new. The summary comes last: whoever sees it here finds everything else. Blocks.

        Args:
            logs: the small ones come along.

        Raises:
            RecordError: nothing in it makes sense, or its event log is too long.
            TonyError: it cannot be had, or not be kept.
        """
        if not JOB_ID.fullmatch(entry.head.job):
            raise StorageError(f"{entry.head.job!r} is no job's id")
        try:
            folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(folder.path)
            if not folder.summary.exists():
                self._bring(store, entry, folder, logs)
        except OSError as error:
            raise StorageError(f"cannot bring {entry.head.job} to {folder.path}: {error.strerror}") from error
        self._drop_old(folder)

    def _bring(self, store: FileStore, entry: IndexEntry, folder: JobFolder, logs: bool) -> None:
        there = store.list(entry.path)
        if not any(item.name == "job.json" for item in there):
            _write_original(folder, jhist_reader.read(store, entry.path, there))
            return
        segments = {item.name: f"{found[1]}.jsonl" for item in there if (found := _EVENTS.fullmatch(item.name))}
        _check_segments(entry, [item for item in there if item.name in segments])
        for path in folder.path.glob("events.*.jsonl"):
            if path.name not in segments.values():  # else one that is renamed again and again fills the disk
                path.unlink()
        left = LONGEST_LISTED_LOG_OF_OTHERS  # a file may have grown since its size was checked
        for item in there:
            try:
                if most := _WHOLE.get(item.name):
                    _fetch(store, joined(entry.path, item.name), item, folder.path / item.name, most)
                elif item.name in segments:
                    here = folder.path / segments[item.name]
                    left -= _fetch(store, joined(entry.path, item.name), item, here, left, grows=True)
            except StorageError as error:
                if item.name == "job.json" or not _is_refused(error):
                    raise  # else: all that may be read is shown
        if logs:
            try:
                _fetch_logs(store, entry, folder, _along(_logs(store, entry, there)))
            except StorageError as error:
                if not _is_refused(error):
                    raise
        try:
            summary = store.read(joined(entry.path, "summary.json"), LONGEST_OF_OTHERS)
        except ValueError as error:
            raise RecordError(f"{entry.head.job}: {error}") from error
        if summary is not None:
            check_json_of_others(summary, f"summary.json of {entry.head.job}")
            with decoding(summary):
                write_json(folder.summary, _at_home(folder, summary))

    def bring_logs(self, store: FileStore, entry: IndexEntry, folder: JobFolder, task: str) -> None:
        """Brings what one task has printed. Blocks.

        Raises:
            TonyError: it cannot be had, or not be kept.
        """
        wanted = []
        for item in _logs(store, entry, store.list(entry.path)):
            name = LogName.parse(item.name)
            if name is not None and name.task == task:
                wanted.append(item)
        try:
            _fetch_logs(store, entry, folder, wanted)
        except OSError as error:
            raise StorageError(f"cannot bring logs of {task} to {folder.path}: {error.strerror}") from error

    def _drop_old(self, kept: JobFolder) -> None:
        """Those that were not looked at for the longest time."""
        found = []
        for path in self._folder.glob("*/jobs/*"):
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
        size = 0
        for number, (_, path) in enumerate(sorted(found, reverse=True)):
            size += _size(path, "*.*")  # without the logs
            if path != kept.path and (number >= _KEPT or size > _MOST_BYTES):
                shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path, pattern: str) -> int:
    """Return the bytes of the files in a folder whose names match a pattern."""
    size = 0
    for file in folder.glob(pattern):
        with contextlib.suppress(OSError):
            size += file.stat().st_size
    return size


def _check_segments(entry: IndexEntry, segments: Sequence[Item]) -> None:
    """Refuse an event log that would take too much of this disk, before anything of it is copied.

    Raises:
        RecordError: it would. A sparse file costs its writer nothing.
    """
    size = sum(item.size for item in segments)
    if size > LONGEST_LISTED_LOG_OF_OTHERS or len(segments) > _MOST_SEGMENTS:
        raise RecordError(
            f"the event log of {entry.head.job} has {size >> 20:,} MiB in {len(segments):,} files; of a record outside "
            f"of the portal's own state directory up to {LONGEST_LISTED_LOG_OF_OTHERS >> 20:,} MiB in "
            f"{_MOST_SEGMENTS:,} files are copied."
        )


def _is_refused(error: StorageError) -> bool:
    """Return True if the portal's user may not read a file or folder."""
    return isinstance(error.__cause__, PermissionError)


def _at_home(folder: JobFolder, summary: bytes) -> Json:
    """The last report names the folder in which it was written.

    Raises:
        RecordError: it is none.
    """
    try:
        told = loads(summary, halves=True)
    except BadJson as error:
        raise RecordError(f"summary.json of {folder.job_id} is not JSON: {error}") from error
    return {**told, "folder": str(folder.path)} if isinstance(told, dict) else told


def _logs(store: FileStore, entry: IndexEntry, there: Iterable[Item]) -> Sequence[Item]:
    if not any(item.name == "logs" and item.folder for item in there):
        return ()
    found = store.list(joined(entry.path, "logs"))
    return [item for item in found if not item.folder and _LOG.fullmatch(item.name)][:_MOST_LOGS]


def _along(logs: Iterable[Item]) -> Iterator[Item]:
    """The smallest ones."""
    left = _ALONG
    for item in sorted(logs, key=lambda item: (item.size, item.name))[:_MOST_ALONG]:
        left -= item.size
        if left < 0:
            return
        yield item


def _fetch_logs(store: FileStore, entry: IndexEntry, folder: JobFolder, logs: Iterable[Item]) -> None:
    if _size(folder.logs, "*") > _MOST_RECORD_LOG_BYTES - _MOST_TASK_LOG_BYTES:
        shutil.rmtree(folder.logs)  # they come again when they are looked at
    folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    left = _MOST_TASK_LOG_BYTES
    for item in logs:
        path = joined(entry.path, "logs", item.name)
        left -= _fetch(store, path, item, folder.logs / item.name, min(_MOST_LOG, left), grows=True)


def _fetch(store: FileStore, path: str, item: Item, here: Path, most: int, *, grows: bool = False) -> int:
    """Copy a file, or what of it is not here yet, if files of its kind only grow.

    Returns:
        The bytes of it that are here now.
    """
    have = here.stat().st_size if grows and here.exists() else 0
    if not grows and here.exists() and here.stat().st_size == item.size and here.stat().st_mtime >= item.changed:
        return item.size
    if min(item.size, most) <= have:
        return have
    target = here if grows else here.with_name(f".{here.name}.{os.getpid()}.new")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if grows else os.O_TRUNC), 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        file.seek(have)
        for piece in store.pieces(path, have):
            file.write(piece[: most - have])
            have += len(piece)
            if have >= most:
                break
    if not grows:
        target.replace(here)
    return have


def _write_original(folder: JobFolder, original: Original) -> None:
    """As our own master would have left it."""
    for old in folder.path.glob("events.*.jsonl"):
        old.unlink()
    write_json(folder.job, to_plain(original.record))
    header = Header(format=FORMAT, version=VERSION, job=folder.job_id, attempt=1, settings="")
    writer = LogWriter(folder.events(1), header)
    try:
        for entry in original.entries:
            writer.append(entry.event, entry.at, entry.wall)
    finally:
        writer.close()
    if original.problem:
        folder.am_log.write_text(f"{time.strftime('%F %T')} {original.problem}\n", encoding="utf-8")
    if original.report.state.ended:
        write_json(folder.summary, to_plain(replace(original.report, folder=str(folder.path))))
