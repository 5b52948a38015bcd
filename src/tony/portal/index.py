"""Finds jobs among a million: a file of SQLite with a line for each.

It is a cache and nothing more: what is in it is in the records as well. Lost, it is filled again; damaged, or of
another version, it is put aside and made anew. One writes (a lock says who), any number read meanwhile.
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
from pathlib import Path
from typing import TypeVar

from tony import clock
from tony.dataclass import dataclass
from tony.errors import StorageError
from tony.model.job_query import JobsPage, Query
from tony.portal import index_schema
from tony.portal.index_entry import IndexEntry
from tony.portal.index_query import IndexQuery
from tony.portal.index_update import IndexUpdater, read_entry

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Seconds to wait for a lock of SQLite's, which is held for a batch at most.
_PATIENCE = 20.0
#: Seconds that one question may take: a search must not hold up others for ever.
SLOWEST = 10.0
#: KiB of pages that a reader, and that the writer keeps in memory.
_READER, _WRITER = 4_000, 48_000
#: Pages after which what was written is put in its place.
_CHECKPOINT = 2_000
#: Steps of SQLite's machine between two looks at the clock.
_OPERATIONS = 200_000
#: Readers that are kept for the next question.
_IDLE = 4
#: Damaged files that are kept; older ones are removed.
_KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRecord:
    """What is known of one record, for who looks whether it changed.

    Attributes:
        place: address of its location.
        ended: the job; False of a damaged record, which may be whole tomorrow.
    """

    place: str
    path: str
    stamp: str
    ended: bool


@dataclass(slots=True)
class _Reader:
    """A connection, of which file it is, and until when it may take for its present question."""

    connection: sqlite3.Connection
    generation: int
    inode: int
    deadline: float = 0.0

    def is_late(self) -> bool:
        """SQLite gives up when this is true."""
        return clock.monotonic() > self.deadline


class JobIndex:
    """One file. Any thread may call anything; writers wait for each other.

    Args:
        path: of the file; its folder must exist. Beside it lie what SQLite needs, and a lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[_Reader] = []
        self._mutex = threading.RLock()  # of who writes
        self._resting = threading.Lock()  # of the readers that wait for a question: they do not wait for who writes
        self._generation = 0
        self._writer: tuple[sqlite3.Connection, IndexUpdater] | None = None
        self._inode = 0
        self._lock = -1

    # --- open and closed ------------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Makes us the one who writes; False if another process is. May be asked again and again.

        Raises:
            StorageError: there can be no file.
        """
        with self._mutex:
            if self._lock >= 0:
                return True
            try:
                descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StorageError(f"cannot make {self.path}.lock: {error.strerror}") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
            self._lock = descriptor
            self._mended(self._begin)
            return True

    def close(self) -> None:
        """Gives everything back; may be called twice."""
        with self._mutex:
            self._generation += 1
            self._drop_writer()
            self._drop_readers()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    # --- read -----------------------------------------------------------------------------------------------------

    def page(self, query: Query) -> JobsPage:
        """The jobs that a query wants.

        Raises:
            ValueError: its `after` makes no sense.
            StorageError: the file cannot be read, or that took too long.
        """
        return self._ask(lambda connection: IndexQuery(connection).page(query), JobsPage(heads=(), total=0))

    def entry(self, job: str) -> IndexEntry | None:
        """One job; None if it is not here."""
        return self._ask(lambda connection: _entry(connection, job), None)

    def known(self, jobs: Iterable[str]) -> Mapping[str, IndexedRecord]:
        """What is known of the records of some jobs, of a thousand or so; of others, nothing."""
        wanted = json.dumps([*jobs])

        def look(connection: sqlite3.Connection) -> dict[str, IndexedRecord]:
            return _known(connection.execute(f"{_KNOWN} where d.id in (select value from json_each(?))", (wanted,)))

        return self._ask(look, {})

    def still_open(self, place: str, most: int, *, damaged: bool = False) -> Mapping[str, IndexedRecord]:
        """What is known of the jobs of a location that have not ended, of the newest; or of the damaged records."""

        def look(connection: sqlite3.Connection) -> dict[str, IndexedRecord]:
            where = "where p.address = ? and j.ended is null and (d.damaged != '') = ? order by d.rid desc limit ?"
            return _known(connection.execute(f"{_KNOWN} {where}", (place, damaged, most)))

        return self._ask(look, {})

    def count(self, place: str) -> int:
        """How many jobs of a location are here."""
        sql = "select count(*) from place p join job j on j.place = p.id where p.address = ?"
        return self._ask(lambda connection: int(connection.execute(sql, (place,)).fetchone()[0]), 0)

    def ids(self, place: str) -> Iterator[str]:
        """Every job of a location."""
        return (entry for entry in self._all(place, lambda _, job: job))

    def entries(self, place: str) -> Iterator[IndexEntry]:
        """Every job of a location, newest first."""
        return (entry for entry in self._all(place, lambda connection, job: _entry(connection, job)) if entry)

    def _all(self, place: str, what: Callable[[sqlite3.Connection, str], T]) -> Iterator[T]:
        """Something of every job of a location, newest first; a thousand at a time, so that nobody waits."""
        after = 2**62

        def some(connection: sqlite3.Connection) -> list[tuple[int, T]]:
            rows = connection.execute(
                "select d.rid, d.id from place p join job j on j.place = p.id join detail d using (rid) "
                "where p.address = ? and j.rid < ? order by j.rid desc limit 1000",
                (place, after),
            ).fetchall()
            return [(rid, what(connection, job)) for rid, job in rows]

        nothing: list[tuple[int, T]] = []
        while found := self._ask(some, nothing):
            yield from (each for _, each in found)
            after = found[-1][0]

    def places(self) -> Mapping[str, tuple[float | None, str]]:
        """Location -> when it was looked through last, and what was wrong there."""
        return self._ask(
            lambda c: {
                a: (seen, problem) for a, seen, problem in c.execute("select address, seen, problem from place")
            },
            {},
        )

    # --- written --------------------------------------------------------------------------------------------------

    def put(self, entries: Iterable[IndexEntry]) -> None:
        """Adds jobs, or says anew what is known of them: all of them, or none.

        Raises:
            StorageError: the disk is full, or we are not the one who writes.
        """
        told = tuple(entries)
        self._write(lambda writer: writer.put(told))

    def remove(self, jobs: Iterable[str]) -> None:
        """Takes jobs out; fine if they are not there."""
        told = tuple(jobs)
        self._write(lambda writer: writer.remove(told))

    def note(self, place: str, *, seen: float | None = None, problem: str = "") -> None:
        """When a location was looked through last, and what is wrong there."""
        self._write(lambda writer: writer.note(place, seen, problem))

    # --- inside ---------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Another number whenever the file was made anew: then all is to be put into it again."""
        return self._generation

    def _write(self, what: Callable[[IndexUpdater], T]) -> T:
        with self._mutex:
            if self._lock < 0:
                raise StorageError(f"{self.path} is written by another process")
            return self._mended(lambda: what(self._begin()))

    def _begin(self) -> IndexUpdater:
        if self._writer and not self._is_there(self._inode):
            raise _Damaged("it was removed")
        if self._writer is None:
            connection = self._connect(_WRITER)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT}")
            if not index_schema.is_made(connection):
                if index_schema.is_used(connection):
                    raise _Damaged("it is of another version")
                index_schema.make(connection)
            self._writer = connection, IndexUpdater(connection)
            self._inode = self.path.stat().st_ino
        return self._writer[1]

    def _is_there(self, inode: int) -> bool:
        try:
            return self.path.stat().st_ino == inode
        except FileNotFoundError:
            return False

    def _drop_readers(self) -> None:
        with self._resting:
            while self._idle:
                self._idle.pop().connection.close()

    def _drop_writer(self) -> None:
        if self._writer:
            with contextlib.suppress(sqlite3.Error):
                self._writer[0].close()
            self._writer = None

    def _ask(self, what: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """Reads; of a file that is not there, or not filled, there is nothing to read."""

        def read() -> T:
            with self._reader() as connection:
                return nothing if connection is None else what(connection)

        if self._lock < 0:
            return self._told(read)
        return self._mended(read)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection | None]:
        """One that nobody else uses at this moment."""
        with self._resting:
            reader = self._idle.pop() if self._idle else None
            generation = self._generation
        if reader is not None and not self._is_there(reader.inode):  # whoever writes has made it anew
            reader.connection.close()
            reader = None
        if reader is None:
            reader = self._new_reader(generation)
        if reader is None:
            yield None
            return
        reader.deadline = clock.monotonic() + SLOWEST
        try:
            yield reader.connection
        finally:
            with self._resting:
                keep = reader.generation == self._generation and len(self._idle) < _IDLE
                if keep:
                    self._idle.append(reader)
            if not keep:
                reader.connection.close()

    def _new_reader(self, generation: int) -> _Reader | None:
        try:
            inode = self.path.stat().st_ino  # if it is made anew this moment, we look again at the next question
        except FileNotFoundError:
            return None
        connection = self._connect(_READER)
        connection.execute("pragma query_only = 1")
        if not index_schema.is_made(connection):
            connection.close()
            return None
        reader = _Reader(connection, generation, inode)
        connection.set_progress_handler(reader.is_late, _OPERATIONS)
        return reader

    def _connect(self, cache: int) -> sqlite3.Connection:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # for our eyes only
        os.close(descriptor)
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute(f"pragma cache_size = -{cache}")
        return connection

    def _told(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise StorageError(f"looking in the index took longer than {SLOWEST:.0f} s; ask for less") from error
            raise StorageError(f"the index {self.path} cannot be used: {error}") from error
        except OSError as error:
            raise StorageError(f"the index {self.path} cannot be used: {error.strerror}") from error

    def _mended(self, what: Callable[[], T]) -> T:
        """Does something; finds the file damaged, it is put aside, and it is done with a new one."""
        try:
            return self._told(what)
        except _Damaged as error:
            damage: BaseException = error
        except StorageError as error:
            if not index_schema.is_damage(error.__cause__):
                raise
            damage = error.__cause__ or error
        with self._mutex:
            self._put_aside(damage)
            self._begin()
        return self._told(what)

    def _put_aside(self, why: BaseException) -> None:
        self._generation += 1  # readers that are in the midst of something leave the old file by themselves
        self._drop_readers()
        self._drop_writer()
        aside = sorted(self.path.parent.glob(f"{self.path.name}.damaged-*"))
        for old in aside[: max(0, len(aside) + 1 - _KEPT)]:
            old.unlink(missing_ok=True)
        number = int(aside[-1].name.rpartition("-")[2]) + 1 if aside else 1
        kept = self.path.with_name(f"{self.path.name}.damaged-{number:04d}")
        _log.warning("the index %s is made anew: %s; the old file is %s", self.path, why, kept)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(kept)
        for end in ("-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)


_KNOWN = """
select d.id, p.address, d.path, d.stamp, j.ended is not null
from detail d join job j using (rid) join place p on p.id = j.place
"""


def _known(rows: Iterable[tuple[str, str, str, str, int]]) -> dict[str, IndexedRecord]:
    return {
        job: IndexedRecord(place=place, path=path, stamp=stamp, ended=bool(ended))
        for job, place, path, stamp, ended in rows
    }


def _entry(connection: sqlite3.Connection, job: str) -> IndexEntry | None:
    row = connection.execute("select rid from detail where id = ?", (job,)).fetchone()
    return row and read_entry(connection, row[0])


class _Damaged(Exception):  # noqa: N818 - what is the case with a file
    """It is to be made anew."""
