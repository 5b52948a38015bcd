"""Write `metrics.db`, for the AM: in short transactions; a later AM attempt reads the file back and continues it.

All functions block and are thread-safe: calls are serialised, and a call completes even if its waiter was cancelled.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tony.errors import StorageError
from tony.history import metrics_schema as layout
from tony.history.metrics_schema import StoredTaskMetrics, TaskMetricsUpdate
from tony.model.metric_definitions import series_of
from tony.model.progress import CheckpointRecord, Progress

log = logging.getLogger(__name__)

#: Seconds to wait for a reader's lock.
_LOCK_TIMEOUT_SECONDS = 10.0
#: Bytes; the file never grows beyond this.
_MAX_BYTES = 200_000_000
_PAGE_BYTES = 4096
#: Like the event log, the file survives the death of the process, not of the machine: no fsync.
_SETTINGS = f"PRAGMA synchronous = OFF; PRAGMA max_page_count = {_MAX_BYTES // _PAGE_BYTES};"


class MetricsWriter:
    """The metrics file of one job.

    Args:
        interval: seconds of the narrowest buckets; an existing file with another interval is replaced.

    Raises:
        StorageError: the file can neither be opened nor created.
    """

    def __init__(self, path: Path, job: str, interval: float) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._series: dict[str, int] = {}
        self._tasks: dict[str, tuple[int, float]] = {}
        self.went_on = path.exists() and self._resume(job, interval)
        if not self.went_on:
            self._create(job, interval)

    def write(
        self,
        parts: Sequence[TaskMetricsUpdate],
        progress: Sequence[Progress] = (),
        checkpoints: Sequence[CheckpointRecord] = (),
        *,
        now: float | None = None,
        many: bool = False,
    ) -> None:
        """Write changes in one transaction.

        Args:
            now: seconds since the job was accepted; all reports up to this time are included.
            many: store fewer digits, because there are very many series.

        Raises:
            StorageError: the disk is full or failing, or the file was damaged meanwhile.
        """
        digits = layout.COARSE if many else layout.FINE
        with self._translate_errors(), self._transaction():
            for part in parts:
                self._write_task(part, digits)
            self._database.executemany(
                "INSERT OR REPLACE INTO progress VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                [layout.encode_progress(each) for each in progress],
            )
            if now is not None:
                self._database.execute("INSERT OR REPLACE INTO about VALUES (?,?)", (layout.WRITTEN, now))
            self._database.executemany(
                "INSERT INTO checkpoint VALUES (?,?,?,?,?,?)",
                [(c.task, c.session, c.try_, c.step, c.since, c.until) for c in checkpoints],
            )

    def read_stored_metrics(self) -> Iterator[StoredTaskMetrics]:
        """Yield the stored metrics of earlier AM attempts, task by task.

        Raises:
            StorageError: they cannot be read.
        """
        names = {number: name for name, number in self._series.items()}
        for task, (number, width) in list(self._tasks.items()):
            found: dict[str, dict[int, list[float]]] = {}
            last: dict[str, object] = {}
            with self._translate_errors():
                for name in names:
                    rows = self._database.execute(
                        "SELECT id, scale, least, mean, most, last FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id",
                        layout.ids(name, number),
                    )
                    for row, scale, least, mean, most, newest in rows:
                        numbers = layout.decode(scale, least, mean, most)
                        found.setdefault(names[name], {})[layout.parts(row)[2]] = numbers
                        last[names[name]] = newest
            if found:
                known = {name: float(value) for name, value in last.items() if isinstance(value, int | float)}
                yield replace(_align_series(task, width, found), last=known)

    def read_stored_progress(self) -> list[Progress]:
        """Return the stored progress reports.

        Raises:
            StorageError: they cannot be read.
        """
        with self._translate_errors():
            return [layout.decode_progress(row) for row in self._database.execute(layout.PROGRESS)]

    def count_stored_checkpoints(self) -> int:
        """Return the number of stored checkpoints.

        Raises:
            StorageError: they cannot be read.
        """
        with self._translate_errors():
            (count,) = self._database.execute("SELECT count(*) FROM checkpoint").fetchone()
            return int(count)

    def copy(self, path: Path) -> None:
        """Copy the whole file to `path`, between two writes.

        Raises:
            StorageError: the copy cannot be written.
        """
        try:
            with self._lock:
                shutil.copyfile(self._path, path)
        except OSError as error:
            raise StorageError(f"cannot copy {self._path} to {path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            self._database.close()

    # --- opening --------------------------------------------------------------------------------------------------

    def _resume(self, job: str, interval: float) -> bool:
        """Open an existing file; return False if it cannot be continued."""
        self._database = _connect(self._path)
        try:
            self._database.executescript(_SETTINGS)
            (application,) = self._database.execute("PRAGMA application_id").fetchone()
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            about = dict(self._database.execute("SELECT key, value FROM about"))
            self._series = {name: number for number, name in self._database.execute("SELECT id, name FROM series")}
            if "last" not in {row[1] for row in self._database.execute("PRAGMA table_info(chunk)")}:
                self._database.execute("ALTER TABLE chunk ADD COLUMN last REAL")  # an earlier tony has written it
            rows = self._database.execute("SELECT id, task, width FROM task")
            self._tasks = {task: (number, width) for number, task, width in rows}
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite repeats damaged text
            log.warning("cannot read %s (%s); starting a new metrics file", self._path, error)
        else:
            if (application, version) == (layout.APPLICATION, layout.VERSION) and about.get("interval") == interval:
                return True
            log.warning("%s has another format or sampling interval; starting a new metrics file", self._path)
        self._database.close()
        return False

    def _create(self, job: str, interval: float) -> None:
        self._series.clear()
        self._tasks.clear()
        try:
            for suffix in ("", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{suffix}")
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StorageError(f"cannot create {self._path}: {error.strerror}") from error
        self._database = _connect(self._path)
        with self._translate_errors():
            self._database.executescript(f"{_SETTINGS}BEGIN;{layout.SCHEMA}COMMIT;")
            facts = (("job", job), ("interval", interval))
            self._database.executemany("INSERT INTO about VALUES (?,?)", facts)

    # --- writing --------------------------------------------------------------------------------------------------

    def _write_task(self, part: TaskMetricsUpdate, digits: int) -> None:
        number, width = self._tasks.get(part.task, (-1, 0.0))
        if number < 0:
            number = len(self._tasks)
            row = (number, part.task, part.role, part.width)
            self._database.execute("INSERT INTO task VALUES (?,?,?,?)", row)
        elif part.anew or width != part.width:
            for series in self._series.values():
                self._database.execute("DELETE FROM chunk WHERE id BETWEEN ? AND ?", layout.ids(series, number))
            self._database.execute("UPDATE task SET width = ? WHERE id = ?", (part.width, number))
        self._tasks[part.task] = number, part.width
        rows = []
        for name, numbers in part.series.items():
            series, made = self._number(name), []
            for chunk, of_chunk in _chunks(part.first, numbers):
                row_made = layout.encode(layout.row_id(series, number, chunk), of_chunk, digits)
                if row_made:
                    made.append(row_made)
            rows += [(*row, part.last.get(name) if row is made[-1] else None) for row in made]
        self._database.executemany("INSERT OR REPLACE INTO chunk VALUES (?,?,?,?,?,?,?,?,?,?)", rows)

    def _number(self, name: str) -> int:
        number = self._series.get(name)
        if number is None:
            number = len(self._series)
            known = series_of(name)
            what = (known.unit.value, known.what, int(known.of_host)) if known else ("", "", 0)
            self._database.execute("INSERT INTO series VALUES (?,?,?,?,?)", (number, name, *what))
            self._series[name] = number
        return number

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        series, tasks = dict(self._series), dict(self._tasks)
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            self._series, self._tasks = series, tasks
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, ValueError) as error:
            raise StorageError(f"{self._path}: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StorageError(f"cannot open {path}: {error}") from error


def _chunks(first: int, numbers: Sequence[float]) -> Iterator[tuple[int, list[float]]]:
    """Split the buckets of one series at chunk boundaries; each part starts at the beginning of its chunk."""
    at, count = 0, len(numbers) // 3
    while at < count:
        chunk, before = divmod(first + at, layout.CHUNK)
        taken = min(layout.CHUNK - before, count - at)
        yield chunk, [math.nan] * (3 * before) + list(numbers[3 * at : 3 * (at + taken)])
        at += taken


def _align_series(task: str, width: float, found: Mapping[str, Mapping[int, list[float]]]) -> StoredTaskMetrics:
    """Align all series of a task to the same buckets; rows of a damaged file far before the last one are dropped."""
    chunks = {chunk for rows in found.values() for chunk in rows}
    last = max(chunks)
    first = max(min(chunks), last - layout.MAX_CHUNKS + 1)
    end = max(last * layout.CHUNK + len(rows[last]) // 3 for rows in found.values() if last in rows)
    nothing = [math.nan] * (3 * layout.CHUNK)
    series = {}
    for name, rows in found.items():
        numbers: list[float] = []
        for chunk in range(first, last + 1):
            numbers += (rows.get(chunk, []) + nothing)[: 3 * layout.CHUNK]
        series[name] = numbers[: 3 * (end - first * layout.CHUNK)]
    empty = min(_count_leading_empty(numbers) for numbers in series.values())
    return StoredTaskMetrics(
        task, width, first * layout.CHUNK + empty, {name: each[3 * empty :] for name, each in series.items()}
    )


def _count_leading_empty(numbers: Sequence[float]) -> int:
    """Return the number of leading buckets without data."""
    return next((at for at, value in enumerate(numbers[1::3]) if value == value), len(numbers) // 3)
