"""Local copies of job directories in other locations, kept while they are in use.

Jobs of LinkedIn TonY are converted to tony's files. Copies are bounded: longer logs are cut. Only small logs are copied
with the directory; the logs of a task are copied when they are requested, since a job's may have terabytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tony.errors import RecordError, StorageError
from tony.history.event_log import FORMAT, MAX_FOREIGN_LISTED_LOG_BYTES, VERSION, Header, LogWriter
from tony.history.json_files import MAX_FOREIGN_JSON_BYTES, check_foreign_json, decode_json, limit_decoding, write_json
from tony.jobs.remote.log_mirror import Mirror
from tony.linux.time_index import parse_index_name
from tony.model.codec import Json, to_plain
from tony.model.ids import JOB_ID
from tony.model.log_name import LogName
from tony.model.state_directory import SEGMENT_GLOB, JobFolder
from tony.portal.histories import jhist_reader
from tony.portal.histories.jhist_reader import LinkedInTonyJob
from tony.portal.job_index.index_schema import IndexEntry
from tony.storage.stores.store_interface import FileStore, Item, join_path

#: Files that are copied, and maximum bytes of each.
_FILES = {"job.json": MAX_FOREIGN_JSON_BYTES, "am.log": 16 << 20, "metrics.db": 1 << 30, "pinned.json": 1 << 16}
_EVENTS = re.compile(r"(events\.\d{1,9})(?:\.closed)?\.jsonl", re.ASCII)
#: Maximum segments of an event log: one for each AM attempt.
_MAX_SEGMENTS = 1000
#: Maximum bytes of one log, of the logs of one task, and of all cached logs of one job.
_MAX_LOG_BYTES = 256 << 20
_MAX_TASK_LOG_BYTES = 2 << 30
_MAX_RECORD_LOG_BYTES = 8 << 30
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)
#: Cached job directories, and maximum logs of one.
_MAX_DIRECTORIES = 50
_MAX_LOGS = 20_000
#: Maximum bytes of the cache, without logs.
_MAX_BYTES = 8 << 30
#: Small logs, copied with the directory: bytes of all, and their number, since each is a request.
_MAX_SMALL_LOGS_BYTES = 4 << 20
_MAX_SMALL_LOGS = 20


class RecordCache:
    """Copies of job directories.

    Args:
        folder: of the cache, exclusively.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_folder(self, entry: IndexEntry, identity: tuple[int, ...] = ()) -> JobFolder:
        """Return the path of a job's copy.

        Args:
            identity: of a directory on this machine, so that a copy of another one at the same path is not used.
        """
        place = hashlib.sha256(repr((entry.place, *identity)).encode()).hexdigest()[:12]
        return JobFolder(self._folder / place / "jobs" / entry.head.job)

    def fetch(self, store: FileStore, entry: IndexEntry, folder: JobFolder, *, logs: bool = True) -> None:
        """Update a copy. The summary is written last, so that everything else is there when it appears. Blocks.

        Args:
            logs: also copy the small logs.

        Raises:
            RecordError: the job directory is damaged, or its event log is too long.
            TonyError: it cannot be read, or the copy not be written.
        """
        if not JOB_ID.fullmatch(entry.head.job):
            raise StorageError(f"{entry.head.job!r} is not a job id")
        try:
            folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(folder.path)
            if not folder.summary.exists():
                self._update(store, entry, folder, logs)
        except OSError as error:
            raise StorageError(f"cannot copy {entry.head.job} to {folder.path}: {error.strerror}") from error
        self._drop_old(folder)

    def _update(self, store: FileStore, entry: IndexEntry, folder: JobFolder, logs: bool) -> None:
        items = store.list(entry.path)
        if not any(item.name == "job.json" for item in items):
            _write_linkedin_job(folder, jhist_reader.read(store, entry.path, items))
            return
        segments = {item.name: f"{found[1]}.jsonl" for item in items if (found := _EVENTS.fullmatch(item.name))}
        _check_segments(entry, [item for item in items if item.name in segments])
        for path in folder.path.glob(SEGMENT_GLOB):
            if path.name not in segments.values():  # a segment that is renamed repeatedly must not fill the disk
                path.unlink()
        left = MAX_FOREIGN_LISTED_LOG_BYTES  # a file may have grown since its size was checked
        for item in items:
            try:
                if most := _FILES.get(item.name):
                    _fetch(store, join_path(entry.path, item.name), item, folder.path / item.name, most)
                elif item.name in segments:
                    local_path = folder.path / segments[item.name]
                    left -= _fetch(store, join_path(entry.path, item.name), item, local_path, left, grows=True)
            except StorageError as error:
                if item.name == "job.json" or not _is_refused(error):
                    raise  # other files are optional: show what may be read
        if logs:
            try:
                _fetch_logs(store, entry, folder, _select_small_logs(_logs(store, entry, items)))
            except StorageError as error:
                if not _is_refused(error):
                    raise
        try:
            summary = store.read(join_path(entry.path, "summary.json"), MAX_FOREIGN_JSON_BYTES)
        except ValueError as error:
            raise RecordError(f"{entry.head.job}: {error}") from error
        if summary is not None:
            check_foreign_json(summary, f"summary.json of {entry.head.job}")
            with limit_decoding(summary):
                write_json(folder.summary, _relocate_summary(folder, summary))

    def fetch_logs(self, store: FileStore, entry: IndexEntry, folder: JobFolder, task: str) -> None:
        """Copy the logs of one task. Blocks.

        Raises:
            TonyError: they cannot be read, or the copies not be written.
        """
        missing_logs = []
        for item in _logs(store, entry, store.list(entry.path)):
            name = LogName.parse(parse_index_name(item.name) or item.name)
            if name is not None and name.task == task:
                missing_logs.append(item)
        try:
            _fetch_logs(store, entry, folder, missing_logs)
            _fetch_tails(store, entry, folder, task)
        except OSError as error:
            raise StorageError(f"cannot copy logs of {task} to {folder.path}: {error.strerror}") from error

    def _drop_old(self, kept: JobFolder) -> None:
        """Remove the least recently used copies beyond the limits."""
        found = []
        for path in self._folder.glob("*/jobs/*"):
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
        size = 0
        for number, (_, path) in enumerate(sorted(found, reverse=True)):
            size += _size(path, "*.*")  # without the logs
            if path != kept.path and (number >= _MAX_DIRECTORIES or size > _MAX_BYTES):
                shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path, pattern: str) -> int:
    """Return the bytes of the files in a folder whose names match a pattern."""
    size = 0
    for file in folder.glob(pattern):
        with contextlib.suppress(OSError):
            size += file.stat().st_size
    return size


def _check_segments(entry: IndexEntry, segments: Sequence[Item]) -> None:
    """Refuse an event log that is too large to copy, by its listed size.

    Raises:
        RecordError: it is too large. A sparse file costs its writer nothing.
    """
    size = sum(item.size for item in segments)
    if size > MAX_FOREIGN_LISTED_LOG_BYTES or len(segments) > _MAX_SEGMENTS:
        raise RecordError(
            f"the event log of {entry.head.job} is too large to copy: {size >> 20:,} MiB in {len(segments):,} files. "
            f"Outside of the portal's own state directory the limit is {MAX_FOREIGN_LISTED_LOG_BYTES >> 20:,} MiB in "
            f"{_MAX_SEGMENTS:,} files."
        )


def _is_refused(error: StorageError) -> bool:
    """Return True if the portal's user may not read a file or folder."""
    return isinstance(error.__cause__, PermissionError)


def _relocate_summary(folder: JobFolder, summary: bytes) -> Json:
    """Replace the folder named in a summary by the copy's.

    Raises:
        RecordError: it is not JSON.
    """
    report = decode_json(f"summary.json of {folder.job_id}", summary)
    return {**report, "folder": str(folder.path)} if isinstance(report, dict) else report


def _logs(store: FileStore, entry: IndexEntry, items: Iterable[Item]) -> Sequence[Item]:
    """Return the logs of a job up to the limit, and the indexes of their times."""
    if not any(item.name == "logs" and item.folder for item in items):
        return ()
    found = [item for item in store.list(join_path(entry.path, "logs")) if not item.folder]
    names = {*[item.name for item in found if _LOG.fullmatch(item.name)][:_MAX_LOGS]}
    return [item for item in found if (parse_index_name(item.name) or item.name) in names]


def _select_small_logs(logs: Iterable[Item]) -> Iterator[Item]:
    """Yield the smallest logs, without their indexes of times, up to the limits."""
    left = _MAX_SMALL_LOGS_BYTES
    logs = [item for item in logs if not parse_index_name(item.name)]
    for item in sorted(logs, key=lambda item: (item.size, item.name))[:_MAX_SMALL_LOGS]:
        left -= item.size
        if left < 0:
            return
        yield item


def _fetch_logs(store: FileStore, entry: IndexEntry, folder: JobFolder, logs: Iterable[Item]) -> None:
    if _size(folder.logs, "*") > _MAX_RECORD_LOG_BYTES - _MAX_TASK_LOG_BYTES:
        shutil.rmtree(folder.logs)  # they are copied again on demand
    folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    left = _MAX_TASK_LOG_BYTES
    for item in logs:
        path = join_path(entry.path, "logs", item.name)
        left -= _fetch(store, path, item, folder.logs / item.name, min(_MAX_LOG_BYTES, left), grows=True)


def _fetch_tails(store: FileStore, entry: IndexEntry, folder: JobFolder, task: str) -> None:
    named = [(LogName.parse(tail.name), tail) for tail in store.read_tails(entry.path)]
    own = [(name, tail) for name, tail in named if name and (name.file, name.task) == (tail.name, task)]
    if not own:
        return
    mirror = Mirror(folder.logs)
    try:
        for name, tail in own:
            mirror.write(name, 0, tail.offset, tail.data, tail.times)
    finally:
        mirror.close()


def _fetch(store: FileStore, path: str, item: Item, local_path: Path, most: int, *, grows: bool = False) -> int:
    """Copy a file; of files that only grow, only what is new.

    Returns:
        The bytes of the copy.
    """
    have = local_path.stat().st_size if grows and local_path.exists() else 0
    if (
        not grows
        and local_path.exists()
        and local_path.stat().st_size == item.size
        and local_path.stat().st_mtime >= item.changed
    ):
        return item.size
    if min(item.size, most) <= have:
        return have
    target = local_path if grows else local_path.with_name(f".{local_path.name}.{os.getpid()}.new")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if grows else os.O_TRUNC), 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        file.seek(have)
        for piece in store.read_pieces(path, have):
            file.write(piece[: most - have])
            have += len(piece)
            if have >= most:
                break
    if not grows:
        target.replace(local_path)
    return have


def _write_linkedin_job(folder: JobFolder, job: LinkedInTonyJob) -> None:
    """Write the files that tony's AM would have written for the job."""
    for old in folder.path.glob(SEGMENT_GLOB):
        old.unlink()
    write_json(folder.job, to_plain(job.record))
    header = Header(format=FORMAT, version=VERSION, job=folder.job_id, attempt=1, settings="")
    writer = LogWriter(folder.events(1), header)
    try:
        for entry in job.entries:
            writer.append(entry.event, entry.at, entry.wall)
    finally:
        writer.close()
    if job.problem:
        folder.am_log.write_text(f"{time.strftime('%F %T')} {job.problem}\n", encoding="utf-8")
    if job.report.state.ended:
        write_json(folder.summary, to_plain(replace(job.report, folder=str(folder.path))))
