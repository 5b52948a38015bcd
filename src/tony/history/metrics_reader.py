"""Read `metrics.db`: the metrics of a job's tasks, while it runs and afterwards.

The file is untrusted input. Missing or damaged data never raises; the result is incomplete and `problem` says why.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tony import clock
from tony.history import metrics_schema as layout
from tony.history.metric_buckets import Bucket, RolePoints, build_role_points, clip, downsample, group_by_bucket
from tony.history.metrics_schema import decode_progress
from tony.model.ids import TaskId
from tony.model.metric_definitions import Points, series_of
from tony.model.progress import CheckpointRecord, Progress

T = TypeVar("T")

_LOCK_TIMEOUT_SECONDS = 2.0
_QUERY_TIMEOUT_SECONDS = 10.0
#: A row has three texts of at most `metrics_schema.MAX_TEXT_CHARACTERS` characters.
_MAX_ROW_BYTES = 16 << 10
#: Limits of one result; lower ones apply to a file written by another user.
_MAX_ROWS = 1_000_000
_MAX_TEXT_BYTES = 256 << 20
_MAX_FOREIGN_ROWS = 250_000
_MAX_FOREIGN_TEXT_BYTES = 40 << 20
#: KiB of SQLite's page cache; the file itself could ask for more.
_CACHE_KIB = 2000
_PRAGMAS = (
    "query_only = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "mmap_size = 0",
    f"cache_size = -{_CACHE_KIB}",
)
_ROWS_PER_FETCH = 1_000
#: Steps of SQLite's virtual machine between two checks of the deadline.
_STEPS_PER_CHECK = 2_000
_TABLE_NAMES = frozenset(("about", "series", "task", "chunk", "progress", "checkpoint"))
#: Magic bytes of a journal; they also end one that names another file.
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
#: Bytes 18 and 19 of a file in rollback mode.
_ROLLBACK_MODE = b"\1\1"
#: Default number of points of one result.
DEFAULT_POINTS = 500


@dataclass(frozen=True, slots=True)
class Peak:
    """The range of a series over the whole life of a task."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMetrics:
    """The newest metrics of a running job, from its AM: where the file is a copy, they are newer.

    Attributes:
        now: seconds since the job was accepted, up to which they are complete.
        progress: the progress of the newest attempt of each task.
        values: task -> series -> newest value.
    """

    now: float
    progress: tuple[Progress, ...]
    values: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _TaskRow:
    number: int
    role: str
    width: float


class Metrics:
    """The metrics file of one job; empty if there is none. A context manager; use it from one thread at a time.

    Args:
        own: the job is in the user's own history; lower limits apply to jobs of other users.
        newest: take precedence over the file's progress and newest values, unless the file is newer.

    Attributes:
        problem: why data is missing; empty if everything read so far was valid.
    """

    def __init__(self, path: Path, *, own: bool = True, newest: NewestMetrics | None = None) -> None:
        self._path = path
        self._rows, self._text = (_MAX_ROWS, _MAX_TEXT_BYTES) if own else (_MAX_FOREIGN_ROWS, _MAX_FOREIGN_TEXT_BYTES)
        self.problem = ""
        self._database: sqlite3.Connection | None = None
        self._series: Mapping[str, int] = {}
        self._tasks: Mapping[str, _TaskRow] = {}
        self._deadline = math.inf
        self._last = "NULL"
        self._newest: NewestMetrics | None = None
        self._open()
        if newest is not None and newest.now >= (self.known_until or 0.0):
            self._newest = newest
            if not path.exists():
                self.problem = ""

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._database:
            self._database.close()
            self._database = None

    @property
    def known(self) -> bool:
        """True if the file could be opened, or there are newer metrics than its own."""
        return self._database is not None or self._newest is not None

    # --- contents -------------------------------------------------------------------------------------------------

    def tasks(self) -> tuple[str, ...]:
        """Return the tasks with metrics, in the order of the job."""
        roles: dict[str, int] = {}
        for known in self._tasks.values():
            roles.setdefault(known.role, len(roles))
        return tuple(sorted(self._tasks, key=lambda task: (roles[self._tasks[task].role], TaskId.parse(task).index)))

    def series(self) -> tuple[str, ...]:
        """Return the sorted names of all series."""
        return tuple(sorted(self._series))

    # --- queries --------------------------------------------------------------------------------------------------

    def points(
        self, task: str, name: str, since: float | None = None, until: float | None = None, most: int = DEFAULT_POINTS
    ) -> Points:
        """Return one series of one task between two times, in at most `most` buckets."""
        known = self._tasks.get(task)
        if known is None or name not in self._series:
            return Points(task=task, series=name, every=1.0, at=(), least=(), mean=(), most=())
        every = self._buckets(known, name)
        buckets = clip(every, known.width, since, until)
        width, merged = downsample(buckets, known.width, max(1, most))
        return Points(
            task=task,
            series=name,
            every=width,
            at=tuple((place + 1) * width for place, _ in merged),
            least=tuple(numbers[0] for _, numbers in merged),
            mean=tuple(numbers[1] for _, numbers in merged),
            most=tuple(numbers[2] for _, numbers in merged),
            last=self._read_last(known, name) if buckets and buckets[-1] is every[-1] else None,
        )

    def read_role_series(
        self,
        role: str | None,
        name: str,
        since: float | None = None,
        until: float | None = None,
        most: int = DEFAULT_POINTS,
    ) -> RolePoints:
        """Return one series aggregated over all tasks of a role, or of the job, in at most `most` buckets."""
        role_tasks = {known.number: known for known in self._tasks.values() if role in (None, known.role)}
        rows = [row for row in self._task_means(name) if row[0] in role_tasks] if name in self._series else []
        if not rows:
            return RolePoints(role=role or "", series=name, every=1.0)
        low = min(chunk * role_tasks[number].width for number, chunk, _ in rows) * layout.CHUNK
        high = max((chunk + 1) * role_tasks[number].width for number, chunk, _ in rows) * layout.CHUNK
        low, high = low if since is None else max(low, since), high if until is None else min(high, until)
        width = max(role_tasks[number].width for number, _, _ in rows)
        while (high - low) / width >= max(1, most):
            width *= 2
        columns = group_by_bucket(
            rows, {number: known.width for number, known in role_tasks.items()}, width, since, until
        )
        names = {known.number: task for task, known in self._tasks.items()}
        return build_role_points(role or "", name, width, columns, names)

    def read_newest(self, series: Collection[str] | None = None) -> Mapping[str, Mapping[str, float]]:
        """Return task -> series -> newest value, for all tasks, and all series by default."""
        tasks = {known.number: task for task, known in self._tasks.items()}
        names = {number: name for name, number in self._series.items() if series is None or name in series}
        # The row with the greatest id of each series of each task: with max(), SQLite takes bare columns from that row.
        question = (
            f"SELECT max(id), scale, NULL, mean, NULL, {self._last} FROM chunk "
            "WHERE id BETWEEN ? AND ? GROUP BY id >> ?"
        )
        found: dict[str, dict[str, float]] = {}
        for number, name in names.items():
            first, last = layout.row_id(number, 0, 0), layout.row_id(number + 1, 0, 0) - 1
            for row in self._query(question, (first, last, layout.PLACE_BITS)):
                for newest in self._decode_rows(_decode_newest, [row]):
                    _, task, _ = layout.parts(row[0])
                    if newest is not None and task in tasks:
                        found.setdefault(tasks[task], {})[name] = newest
        for named, values in self._newest.values.items() if self._newest else ():
            chosen = {name: value for name, value in values.items() if series is None or name in series}
            found.setdefault(named, {}).update(chosen)
        return found

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        """Return task -> series -> extremes and mean, for one role or for all."""
        numbers = {known.number: task for task, known in self._tasks.items() if role in (None, known.role)}
        names = {number: name for name, number in self._series.items()}
        # The casts keep damaged rows from returning large texts.
        question = (
            "SELECT id >> ?, total(CAST(known AS INTEGER)), min(CAST(low AS REAL)), "
            "total(CAST(middle AS REAL) * CAST(known AS INTEGER)), max(CAST(high AS REAL)) FROM chunk GROUP BY id >> ?"
        )
        rows = self._query(question, (layout.PLACE_BITS, layout.PLACE_BITS), texts=False)
        found: dict[str, dict[str, Peak]] = {}
        for series, task, peak in self._decode_rows(_decode_peak, rows):
            if peak is not None and task in numbers and series in names:
                found.setdefault(numbers[task], {})[names[series]] = peak
        return found

    @property
    def known_until(self) -> float | None:
        """Like `ProgressRecords.known_until`; None if the file does not say."""
        if self._newest is not None:
            return self._newest.now
        for (value,) in self._query("SELECT value FROM about WHERE key = ?", (layout.WRITTEN,)):
            if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
                return float(value)
        return None

    # --- reports of user programs ---------------------------------------------------------------------------------

    def progress(self, task: str | None = None) -> tuple[Progress, ...]:
        """Return the progress of each task attempt, of one task or of all, ordered by session and attempt."""
        where, values = ("WHERE task = ?", (task,)) if task else ("", ())
        rows = self._query(f"{layout.PROGRESS} {where} ORDER BY session, try, task", values)
        found = {(each.task, each.session, each.try_): each for each in self._decode_rows(decode_progress, rows)}
        for each in self._newest.progress if self._newest else ():
            key = (each.task, each.session, each.try_)
            # An AM that was started again has what was stored, until its executors report.
            if task in (None, each.task) and (key not in found or found[key].at <= each.at):
                found[key] = each
        return tuple(sorted(found.values(), key=lambda each: (each.session, each.try_, each.task)))

    def checkpoints(self, task: str | None = None) -> tuple[CheckpointRecord, ...]:
        """Return the saved checkpoints of one task or of all, ordered by time."""
        where, values = ("WHERE task = ?", (task,)) if task else ("", ())
        rows = self._query(
            f"SELECT task, session, try, step, since, until FROM checkpoint {where} ORDER BY since", values
        )
        return tuple(self._decode_rows(_decode_checkpoint, rows))

    # --- the file -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            modes = _uri_modes(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self.problem = "no metrics were recorded"
            return
        except OSError as error:
            self.problem = f"{self._path.name} cannot be read: {error.strerror}"
            return
        for way in modes:
            try:
                database = sqlite3.connect(
                    f"file:{urllib.parse.quote(str(self._path))}?{way}",
                    uri=True,
                    timeout=_LOCK_TIMEOUT_SECONDS,
                    check_same_thread=False,
                )
            except sqlite3.Error as error:
                self.problem = str(error)
                continue
            self._database = database
            try:
                self._read_header(database)
            except (sqlite3.Error, ValueError) as error:
                self.problem = f"{self._path.name} cannot be read: {error}"
                self.close()
                continue
            self.problem = ""
            return

    def _read_header(self, database: sqlite3.Connection) -> None:
        self._deadline = clock.monotonic() + _QUERY_TIMEOUT_SECONDS
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
        database.set_progress_handler(self._is_past_deadline, _STEPS_PER_CHECK)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if application != layout.APPLICATION:
            raise ValueError("it was not written by tony")
        if version != layout.VERSION:
            raise ValueError(f"it has version {version}; this tony reads version {layout.VERSION}")
        _check_tables(database)
        rows = self._fetch_all(database.execute("SELECT id, name FROM series"))
        self._series = {name: number for number, name in rows if isinstance(name, str) and series_of(name)}
        columns = {row[1] for row in database.execute("PRAGMA table_info(chunk)")}
        self._last = "last" if "last" in columns else "NULL"  # earlier versions of tony wrote none
        found = self._fetch_all(database.execute("SELECT id, task, role, width FROM task"))
        self._tasks = {
            task: _TaskRow(number, role, float(width))
            for number, task, role, width in found
            if _is_valid_task(task, role, width)
        }

    def _fetch_all(self, cursor: sqlite3.Cursor, *, texts: bool = True) -> list[Any]:
        return _fetch_all(cursor, self._rows, self._text, texts=texts)

    def _is_past_deadline(self) -> int:
        return int(clock.monotonic() > self._deadline)

    def _query(self, question: str, values: Sequence[object], *, texts: bool = True) -> list[Any]:
        """Run a query; on failure set `problem` and return no rows.

        Args:
            texts: the result may contain text, which counts against the limit.
        """
        if self._database is None:
            return []
        self._deadline = clock.monotonic() + _QUERY_TIMEOUT_SECONDS
        try:
            return self._fetch_all(self._database.execute(question, values), texts=texts)
        except (sqlite3.Error, ValueError) as error:
            self.problem = f"{self._path.name} cannot be read: {error}"
            return []

    def _decode_rows(self, make: Callable[[Any], T], rows: Iterable[Any]) -> Iterator[T]:
        for row in rows:
            try:
                yield make(row)
            except (ValueError, TypeError, OverflowError) as error:
                self.problem = f"{self._path.name} is damaged: {error}"

    def _buckets(self, task: _TaskRow, name: str) -> list[Bucket]:
        """Return the grid position and the numbers of each non-empty bucket of a series."""
        question = "SELECT id, scale, least, mean, most FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id"
        rows = self._query(question, layout.ids(self._series[name], task.number))
        return [bucket for buckets in self._decode_rows(_decode_buckets, rows) for bucket in buckets]

    def _read_last(self, task: _TaskRow, name: str) -> float | None:
        """Return the newest value of a series; None if an earlier tony has written the file."""
        question = f"SELECT {self._last} FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
        rows = self._query(question, layout.ids(self._series[name], task.number))
        return next(self._decode_rows(_decode_last, rows), None)

    def _task_means(self, name: str) -> list[tuple[int, int, list[float]]]:
        """Return task number, chunk and means of all tasks."""
        first, last = layout.row_id(self._series[name], 0, 0), layout.row_id(self._series[name] + 1, 0, 0) - 1
        rows = self._query("SELECT id, scale, mean FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id", (first, last))
        return list(self._decode_rows(_decode_means, rows))


def _uri_modes(path: Path) -> Sequence[str]:
    """Return the SQLite URI parameters to try, in order.

    A killed writer leaves a journal, which only a process with write access can roll back. But a crafted journal can
    name a foreign file that SQLite then deletes, and a crafted database can make SQLite create files next to it; our
    writer does neither. So a file with these features, or one that is not ours in our own directory, is opened as
    immutable, ignoring every other file.

    Raises:
        OSError: there is no such file, or it is not a regular file.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "not a regular file")
    own_uid = os.geteuid()
    trusted = status.st_uid == own_uid and os.stat(path.parent).st_uid == own_uid and _refers_to_no_other_file(path)
    return ("mode=rw", "mode=ro") if trusted else ("mode=ro&immutable=1",)


def _refers_to_no_other_file(path: Path) -> bool:
    """Return True if a file and its journal refer to no other files (https://www.sqlite.org/fileformat.html)."""
    with path.open("rb") as file:
        head = file.read(20)
    try:
        with path.with_name(f"{path.name}-journal").open("rb") as journal:
            size = journal.seek(0, os.SEEK_END)
            journal.seek(max(0, size - len(_JOURNAL_MAGIC)))
            named = size > len(_JOURNAL_MAGIC) and journal.read() == _JOURNAL_MAGIC
    except FileNotFoundError:
        named = False
    return head[18:20] == _ROLLBACK_MODE and not named


def _check_tables(database: sqlite3.Connection) -> None:
    """Check that our tables are plain tables.

    A view or a computed column under such a name would run code of its writer.

    Raises:
        ValueError: one is not a plain table.
    """
    question = "SELECT name, type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE %' FROM sqlite_master"
    found = set()
    for name, plain in _fetch_all(database.execute(question), _MAX_ROWS, _MAX_FOREIGN_TEXT_BYTES):
        if name in _TABLE_NAMES:
            if not plain:
                raise ValueError(f"{name} is not a table")
            found.add(name)
    for name in found:
        for column in database.execute(f"PRAGMA table_xinfo({name})"):
            if column[-1]:  # hidden: a computed column, of any length and evaluated on each read
                raise ValueError(f"{name}.{column[1]} is not a plain column")


def _fetch_all(cursor: sqlite3.Cursor, most: int, max_text_bytes: int, *, texts: bool = True) -> list[Any]:
    """Fetch all rows.

    Args:
        most: maximum number of rows.
        max_text_bytes: maximum bytes of text.

    Raises:
        ValueError: a limit is exceeded.
    """
    found: list[Any] = []
    while batch := cursor.fetchmany(_ROWS_PER_FETCH):
        found += batch
        if texts:
            max_text_bytes -= sum(len(value) for row in batch for value in row if isinstance(value, str | bytes))
        if max_text_bytes < 0 or len(found) > most:
            raise ValueError("it has too many rows or too much text")
    return found


def _is_valid_task(task: object, role: object, width: object) -> bool:
    if not isinstance(task, str) or not isinstance(role, str) or not isinstance(width, int | float):
        return False
    try:
        return TaskId.parse(task).role == role and 0 < width < math.inf
    except ValueError:
        return False


def _decode_checkpoint(row: Sequence[Any]) -> CheckpointRecord:
    task, session, try_, step, since, until = row
    return CheckpointRecord(str(task), int(session), int(try_), int(step), float(since), float(until))


def _decode_peak(row: Sequence[Any]) -> tuple[int, int, Peak | None]:
    """Return series, task and peak; None without samples."""
    group, samples, least, weighed, most = row
    series, task, _ = layout.parts(group << layout.PLACE_BITS)
    return series, task, Peak(float(least), weighed / samples, float(most)) if samples > 0 else None


def _decode_buckets(row: Sequence[Any]) -> list[Bucket]:
    number, scale, least, mean, most = row
    numbers = layout.decode(scale, least, mean, most)
    first = layout.parts(number)[2] * layout.CHUNK
    places = range(0, len(numbers), 3)
    return [(first + at // 3, numbers[at : at + 3]) for at in places if numbers[at + 1] == numbers[at + 1]]


def _decode_newest(row: Sequence[Any]) -> float | None:
    """Return the newest value of the last row of a series, or the last mean of an earlier tony; None without one."""
    *stored, last = row
    value = _decode_last([last])
    buckets = _decode_buckets(stored) if value is None else []
    return buckets[-1][1][1] if buckets else value


def _decode_last(row: Sequence[Any]) -> float | None:
    (last,) = row
    if last is None:
        return None
    if not isinstance(last, int | float) or not math.isfinite(last):
        raise ValueError("a newest value that is not a finite number")
    return float(last)


def _decode_means(row: Sequence[Any]) -> tuple[int, int, list[float]]:
    number, scale, mean = row
    _, task, chunk = layout.parts(number)
    return task, chunk, layout.decode(scale, None, mean, None)[1::3]
