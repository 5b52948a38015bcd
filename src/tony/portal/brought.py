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
from tony.history.files import write_json
from tony.history.log import FORMAT, VERSION, Header, LogWriter
from tony.jobs.log_names import LogName
from tony.model.codec import Json, to_plain
from tony.model.ids import JOB_ID
from tony.model.json_text import BadJson, loads
from tony.model.layout import JobFolder
from tony.portal import jhist
from tony.portal.entry import Entry
from tony.portal.jhist import Original
from tony.storage.store import Item, Store, joined

#: Files of a record that are brought, and bytes of each at most.
_WHOLE = {"job.json": 16 << 20, "am.log": 16 << 20, "metrics.db": 1 << 30, "pinned.json": 1 << 16}
_EVENTS = re.compile(r"(events\.\d{1,9})(?:\.closed)?\.jsonl", re.ASCII)
_MOST_EVENTS, _MOST_LOG = 1 << 30, 256 << 20
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)
#: Records that stay here, and logs of one.
_KEPT, _MOST_LOGS = 50, 20_000
#: Bytes of the logs that come along, all together, and how many of them: each is a call.
_ALONG, _MOST_ALONG = 4 << 20, 20


class Brought:
    """What was brought here.

    Args:
        folder: in which it lies; nobody else's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder(self, entry: Entry) -> JobFolder:
        """Where a record will be, once it was brought."""
        place = hashlib.sha256(entry.place.encode()).hexdigest()[:12]
        return JobFolder(self._folder / place / "jobs" / entry.head.job)

    def bring(self, store: Store, entry: Entry) -> JobFolder:
        """Brings what is new. The summary comes last: whoever sees it here finds everything else. Blocks.

        Raises:
            RecordError: nothing in it makes sense.
            TonyError: it cannot be had, or not be kept.
        """
        folder = self.folder(entry)
        if not JOB_ID.fullmatch(entry.head.job):
            raise StorageError(f"{entry.head.job!r} is no job's id")
        try:
            folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(folder.path)
            if not folder.summary.exists():
                self._bring(store, entry, folder)
        except OSError as error:
            raise StorageError(f"cannot bring {entry.head.job} to {folder.path}: {error.strerror}") from error
        self._drop_old(folder)
        return folder

    def _bring(self, store: Store, entry: Entry, folder: JobFolder) -> None:
        there = store.list(entry.path)
        if not any(item.name == "job.json" for item in there):
            _write_original(folder, jhist.read(store, entry.path, there))
            return
        for item in there:
            if most := _WHOLE.get(item.name):
                _fetch(store, joined(entry.path, item.name), item, folder.path / item.name, most)
            elif found := _EVENTS.fullmatch(item.name):
                here = folder.path / f"{found[1]}.jsonl"
                _fetch(store, joined(entry.path, item.name), item, here, _MOST_EVENTS, grows=True)
        _fetch_logs(store, entry, folder, _along(_logs(store, entry, there)))
        summary = store.read(joined(entry.path, "summary.json"), 64 << 20)
        if summary is not None:
            write_json(folder.summary, _at_home(folder, summary))

    def bring_logs(self, store: Store, entry: Entry, task: str) -> None:
        """Brings what one task has printed. Blocks.

        Raises:
            TonyError: it cannot be had, or not be kept.
        """
        folder = self.folder(entry)
        wanted = []
        for item in _logs(store, entry, store.list(entry.path)):
            name = LogName.parse(item.name)
            if name is not None and name.task == task:
                wanted.append(item)
        try:
            folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            _fetch_logs(store, entry, folder, wanted)
        except OSError as error:
            raise StorageError(f"cannot bring logs of {task} to {folder.path}: {error.strerror}") from error

    def _drop_old(self, kept: JobFolder) -> None:
        """Those that were not looked at for the longest time."""
        found = []
        for path in self._folder.glob("*/jobs/*"):
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
        found.sort()
        for _, path in found[: max(0, len(found) - _KEPT)]:
            if path != kept.path:
                shutil.rmtree(path, ignore_errors=True)


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


def _logs(store: Store, entry: Entry, there: Iterable[Item]) -> Sequence[Item]:
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


def _fetch_logs(store: Store, entry: Entry, folder: JobFolder, logs: Iterable[Item]) -> None:
    for item in logs:
        _fetch(store, joined(entry.path, "logs", item.name), item, folder.logs / item.name, _MOST_LOG, grows=True)


def _fetch(store: Store, path: str, item: Item, here: Path, most: int, *, grows: bool = False) -> None:
    """A file, or what of it is not here yet, if files of its kind only grow."""
    have = here.stat().st_size if grows and here.exists() else 0
    if not grows and here.exists() and here.stat().st_size == item.size and here.stat().st_mtime >= item.changed:
        return
    if min(item.size, most) <= have:
        return
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
