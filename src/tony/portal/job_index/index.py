"""The index of jobs: an SQLite file that finds jobs among a million.

It is only a cache of job directories: if lost, it is rebuilt; if damaged or of another version, it is put aside and
rebuilt. One process writes (it holds a lock), any number read concurrently.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tony import clock
from tony.errors import StorageError
from tony.model.job_query import JobsPage, Query
from tony.portal.job_index import index_schema
from tony.portal.job_index.index_query import IndexQuery
from tony.portal.job_index.index_schema import IndexEntry
from tony.portal.job_index.index_writer import IndexUpdater

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Seconds to wait for a lock of SQLite, which is held for one batch at most.
_LOCK_TIMEOUT_SECONDS = 20.0
#: Seconds; a query that takes longer is interrupted.
QUERY_TIMEOUT_SECONDS = 10.0
#: SQLite's page cache.
_READER_CACHE_KIB = 4_000
_WRITER_CACHE_KIB = 48_000
#: Pages in the write-ahead log after which it is checkpointed.
_CHECKPOINT_PAGES = 2_000
#: Steps of SQLite's virtual machine between two checks of the deadline.
_STEPS_PER_CHECK = 200_000
#: Damaged files kept; older ones are removed.
_MAX_DAMAGED_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRecord:
    """The index's knowledge of a job directory, for detecting changes.

    Attributes:
        place: address of its location.
        ended: the job has ended; False for a damaged directory, which may be repaired.
    """

    place: str
    path: str
    stamp: str
    ended: bool


class JobIndex:
    """An index file. Thread-safe; writers are serialised.

    Args:
        path: of the file; its folder must exist. SQLite's other files and the lock are next to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.RLock()  # for writing
        self._generation = 0
        self._writer: tuple[sqlite3.Connection, IndexUpdater] | None = None
        self._inode = 0
        self._lock = -1

    # --- open and closed ------------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Become the writer; return False if another process is. May be called repeatedly.

        Raises:
            StorageError: the file cannot be created.
        """
        with self._mutex:
            if self._lock >= 0:
                return True
            try:
                descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StorageError(f"cannot create {self.path}.lock: {error.strerror}") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
            self._lock = descriptor
            self._with_recovery(self._open_writer)
            return True

    def close(self) -> None:
        """Stop writing and release the lock. May be called twice."""
        with self._mutex:
            self._drop_writer()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    # --- read -----------------------------------------------------------------------------------------------------

    def query_page(self, query: Query) -> JobsPage:
        """Return a page of jobs.

        Raises:
            ValueError: the query's `after` is invalid.
            StorageError: the file cannot be read, or the query took too long.
        """
        return self._query_or_default(
            lambda connection: IndexQuery(connection).query_page(query), JobsPage(heads=(), total=0)
        )

    def find_entry(self, job: str) -> IndexEntry | None:
        """Return one job; None if it is not in the index."""

        def look_up(connection: sqlite3.Connection) -> IndexEntry | None:
            rid = index_schema.find_row(connection, job)
            return None if rid is None else index_schema.read_entry(connection, rid)

        return self._query_or_default(look_up, None)

    def find_known(self, jobs: Iterable[str]) -> Mapping[str, IndexedRecord]:
        """Return what is known of some jobs (about a thousand at most); unknown ones are left out."""
        job_ids = json.dumps([*jobs])

        def look_up(connection: sqlite3.Connection) -> dict[str, IndexedRecord]:
            return _collect_known(
                connection.execute(f"{_KNOWN} where d.id in (select value from json_each(?))", (job_ids,))
            )

        return self._query_or_default(look_up, {})

    def find_still_open(self, place: str, most: int, *, damaged: bool = False) -> Mapping[str, IndexedRecord]:
        """Return the newest jobs of a location that have not ended; or those that are damaged."""

        def look_up(connection: sqlite3.Connection) -> dict[str, IndexedRecord]:
            where = "where p.kind = 'place' and p.text = ? and j.ended is null and d.damaged = ?"
            return _collect_known(
                connection.execute(f"{_KNOWN} {where} order by d.rid desc limit ?", (place, damaged, most))
            )

        return self._query_or_default(look_up, {})

    def count_jobs(self, place: str) -> int:
        """Return the number of jobs of a location."""
        sql = "select coalesce(sum(jobs), 0) from word where kind = 'place' and text = ?"
        return self._query_or_default(lambda connection: int(connection.execute(sql, (place,)).fetchone()[0]), 0)

    def iterate_ids(self, place: str) -> Iterator[str]:
        """Yield the id of every job of a location, newest first; in batches, so that no query takes long."""
        after = 2**62

        def read_batch(connection: sqlite3.Connection) -> list[tuple[int, str]]:
            return connection.execute(
                "select d.rid, d.id from word p join job j on j.place = p.id join detail d using (rid) "
                "where p.kind = 'place' and p.text = ? and j.rid < ? order by j.rid desc limit 1000",
                (place, after),
            ).fetchall()

        default: list[tuple[int, str]] = []
        while found := self._query_or_default(read_batch, default):
            yield from (job for _, job in found)
            after = found[-1][0]

    # --- written --------------------------------------------------------------------------------------------------

    def put(self, entries: Iterable[IndexEntry]) -> None:
        """Add or update jobs, all in one transaction.

        Raises:
            StorageError: the disk is full, or this process is not the writer.
        """
        listed = tuple(entries)
        self._write(lambda writer: writer.put(listed))

    def remove(self, jobs: Iterable[str]) -> None:
        """Remove jobs; unknown ones are ignored."""
        listed = tuple(jobs)
        self._write(lambda writer: writer.remove(listed))

    # --- inside ---------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """A number that changes whenever the file was recreated and must be filled again."""
        return self._generation

    def _write(self, what: Callable[[IndexUpdater], T]) -> T:
        with self._mutex:
            if self._lock < 0:
                raise StorageError(f"{self.path} is written by another process")
            return self._with_recovery(lambda: what(self._open_writer()))

    def _open_writer(self) -> IndexUpdater:
        if self._writer and (not self.path.exists() or self.path.stat().st_ino != self._inode):
            raise _DamagedIndexError("it was removed")
        if self._writer is None:
            connection = self._connect(_WRITER_CACHE_KIB)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            if not index_schema.is_made(connection):
                if index_schema.is_used(connection):
                    raise _DamagedIndexError("it has another version")
                index_schema.make(connection)
            self._writer = connection, IndexUpdater(connection)
            self._inode = self.path.stat().st_ino
        return self._writer[1]

    def _drop_writer(self) -> None:
        if self._writer:
            with contextlib.suppress(sqlite3.Error):
                self._writer[0].close()
            self._writer = None

    def _query_or_default(self, what: Callable[[sqlite3.Connection], T], default: T) -> T:
        """Read from the index; return `default` if the file does not exist or has no tables yet."""

        def read() -> T:
            if not self.path.exists():
                return default
            with contextlib.closing(self._connect(_READER_CACHE_KIB)) as connection:
                connection.execute("pragma query_only = 1")
                deadline = clock.monotonic() + QUERY_TIMEOUT_SECONDS
                connection.set_progress_handler(lambda: clock.monotonic() > deadline, _STEPS_PER_CHECK)
                return what(connection) if index_schema.is_made(connection) else default

        if self._lock < 0:
            return self._translate_errors(read)
        return self._with_recovery(read)

    def _connect(self, cache: int) -> sqlite3.Connection:
        # Created before SQLite does, whose mode is wider. Never opened here: closing any descriptor of the file drops
        # every lock that this process has on it, and the next process to leave would remove the writer's log.
        with contextlib.suppress(FileExistsError):
            os.mknod(self.path, 0o600)
        connection = sqlite3.connect(
            self.path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"pragma cache_size = -{cache}")
        return connection

    def _translate_errors(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except (sqlite3.Error, *index_schema.DAMAGED_TEXT_ERRORS) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise StorageError(
                    f"the query took longer than {QUERY_TIMEOUT_SECONDS:.0f} s; narrow it down"
                ) from error
            raise StorageError(f"the index {self.path} cannot be used: {error}") from error
        except OSError as error:
            raise StorageError(f"the index {self.path} cannot be used: {error.strerror}") from error

    def _with_recovery(self, what: Callable[[], T]) -> T:
        """Call `what`; if the file turns out to be damaged, put it aside and call it again with a new one."""
        try:
            return self._translate_errors(what)
        except _DamagedIndexError as error:
            damage: BaseException = error
        except StorageError as error:
            if not index_schema.is_damage(error.__cause__):
                raise
            damage = error.__cause__ or error
        with self._mutex:
            self._put_aside(damage)
            self._open_writer()
        return self._translate_errors(what)

    def _put_aside(self, why: BaseException) -> None:
        self._generation += 1
        self._drop_writer()
        aside = sorted(self.path.parent.glob(f"{self.path.name}.damaged-*"))
        for old in aside[: max(0, len(aside) + 1 - _MAX_DAMAGED_FILES)]:
            old.unlink(missing_ok=True)
        number = int(aside[-1].name.rpartition("-")[2]) + 1 if aside else 1
        kept = self.path.with_name(f"{self.path.name}.damaged-{number:04d}")
        _log.warning("recreating the index %s: %s; the old file is %s", self.path, why, kept)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(kept)
        for end in ("-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)


_KNOWN = """
select d.id, p.text, d.path, d.stamp, j.ended is not null
from detail d join job j using (rid) join word p on p.id = j.place
"""


def _collect_known(rows: Iterable[tuple[str, str, str, str, int]]) -> dict[str, IndexedRecord]:
    return {
        job: IndexedRecord(place=place, path=path, stamp=stamp, ended=bool(ended))
        for job, place, path, stamp, ended in rows
    }


class _DamagedIndexError(Exception):
    """The index must be recreated."""
