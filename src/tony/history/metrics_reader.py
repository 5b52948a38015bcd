"""Reads `metrics.db`: what was measured of a job's tasks, while it runs and years later.

What is missing or damaged is not known: whoever asks gets less, and no error. The file may come from anybody.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tony import clock
from tony.dataclass import dataclass
from tony.history import metrics_schema as layout
from tony.history.metrics_writer import progress_of
from tony.history.progress_records import CheckpointRecord
from tony.model.ids import TaskId
from tony.model.metrics import series_of
from tony.model.progress import Progress
from tony.protocol.messages import Points

T = TypeVar("T")

#: Seconds that a writer may hold the file, and that one question may take.
_PATIENCE, _LONGEST = 2.0, 10.0
#: Bytes of one row: each of three texts has at most `metrics_schema.LONGEST`. Rows and bytes of text of one answer.
#: More makes no sense in such a file.
_ROW, _ROWS, _TEXT = 16 << 10, 1_000_000, 256 << 20
#: The same of rows and text of a file that another user has written.
_ROWS_OF_OTHERS = 250_000
_TEXT_OF_OTHERS = 40 << 20
#: KiB of a file's pages that SQLite keeps; a file can ask for more.
_CACHE_KIB = 2000
_PRAGMAS = (
    "query_only = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "mmap_size = 0",
    f"cache_size = -{_CACHE_KIB}",
)
#: Rows that are taken at once, and steps of SQLite's machine between two looks at the clock.
_PORTION, _STEPS = 1_000, 2_000
_TABLES = frozenset(("about", "series", "task", "chunk", "progress", "pace", "checkpoint"))
#: How a journal begins; it ends so as well if it names another file. Bytes 18 and 19 of a file that has such a journal.
_JOURNAL, _ROLLS_BACK = bytes.fromhex("d9d505f920a163d7"), b"\1\1"
#: Points of one answer, unless somebody asks for others.
MOST = 500


@dataclass(frozen=True, slots=True)
class Peak:
    """Over the whole life of a task."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePoints:
    """One series of all tasks of a role: in each bucket the median of the tasks' means, and who is far from it.

    Attributes:
        at: ends of the buckets of `every` seconds, since the job was accepted.
        least, most: the lowest and the highest mean of a task; least_of, most_of: whose they are.
        tasks: how many have something in that bucket.
    """

    role: str
    series: str
    every: float
    at: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    median: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    least_of: tuple[str, ...] = ()
    most_of: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Task:
    number: int
    role: str
    width: float


class Metrics:
    """One job's file, for one thread at a time. To be closed, or used as a context.

    Attributes:
        problem: why nothing, or not all, is known; empty if the file is sound as far as it was looked at.
    """

    def __init__(self, path: Path, *, own: bool = True) -> None:
        self._path = path
        self._rows, self._text = (_ROWS, _TEXT) if own else (_ROWS_OF_OTHERS, _TEXT_OF_OTHERS)
        self.problem = ""
        self._database: sqlite3.Connection | None = None
        self._series: Mapping[str, int] = {}
        self._tasks: Mapping[str, _Task] = {}
        self._has_pace = False
        self._deadline = math.inf
        self._open()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file. May be called twice."""
        if self._database:
            self._database.close()
            self._database = None

    @property
    def known(self) -> bool:
        """Whether anything can be known."""
        return self._database is not None

    # --- what there is --------------------------------------------------------------------------------------------

    def tasks(self) -> tuple[str, ...]:
        """Of whom something was measured, in the order of the job."""
        roles: dict[str, int] = {}
        for known in self._tasks.values():
            roles.setdefault(known.role, len(roles))
        return tuple(sorted(self._tasks, key=lambda task: (roles[self._tasks[task].role], TaskId.parse(task).index)))

    def series(self) -> tuple[str, ...]:
        """What was measured of any task, by name."""
        return tuple(sorted(self._series))

    # --- numbers --------------------------------------------------------------------------------------------------

    def points(
        self, task: str, name: str, since: float | None = None, until: float | None = None, most: int = MOST
    ) -> Points:
        """One series of one task between two moments, in so many buckets at most."""
        known = self._tasks.get(task)
        if known is None or name not in self._series:
            return Points(task=task, series=name, every=1.0, at=(), least=(), mean=(), most=())
        buckets = _between(self._buckets(known, name), known.width, since, until)
        width, merged = _thinned(buckets, known.width, max(1, most))
        return Points(
            task=task,
            series=name,
            every=width,
            at=tuple((place + 1) * width for place, _ in merged),
            least=tuple(numbers[0] for _, numbers in merged),
            mean=tuple(numbers[1] for _, numbers in merged),
            most=tuple(numbers[2] for _, numbers in merged),
        )

    def of_role(
        self, role: str, name: str, since: float | None = None, until: float | None = None, most: int = MOST
    ) -> RolePoints:
        """One series of all tasks of a role, in so many buckets at most."""
        mine = {known.number: known for known in self._tasks.values() if known.role == role}
        if not mine or name not in self._series:
            return RolePoints(role=role, series=name, every=1.0)
        rows = [row for row in self._means_of(name) if row[0] in mine]
        if not rows:
            return RolePoints(role=role, series=name, every=1.0)
        low = min(chunk * mine[number].width for number, chunk, _ in rows) * layout.CHUNK
        high = max((chunk + 1) * mine[number].width for number, chunk, _ in rows) * layout.CHUNK
        low, high = low if since is None else max(low, since), high if until is None else min(high, until)
        width = max(mine[number].width for number, _, _ in rows)
        while (high - low) / width >= max(1, most):
            width *= 2
        columns = _columns(rows, {number: known.width for number, known in mine.items()}, width, since, until)
        names = {known.number: task for task, known in self._tasks.items()}
        return _summed_up(role, name, width, columns, names)

    def latest(self, task: str, name: str) -> float | None:
        """The newest mean of a series."""
        known = self._tasks.get(task)
        buckets = self._buckets(known, name, newest=True) if known and name in self._series else []
        return buckets[-1][1][1] if buckets else None

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """Task -> series -> its newest mean, of all tasks."""
        tasks = {known.number: task for task, known in self._tasks.items()}
        names = {number: name for name, number in self._series.items()}
        # Of each series of each task the row with the greatest id: SQLite takes the other columns from the same row.
        question = "SELECT max(id), scale, NULL, mean, NULL FROM chunk GROUP BY id >> ?"
        found: dict[str, dict[str, float]] = {}
        for row in self._ask(question, (layout.PLACE_BITS,)):
            for buckets in self._each(_decoded, [row]):
                series, task, _ = layout.parts(row[0])
                if buckets and task in tasks and series in names:
                    found.setdefault(tasks[task], {})[names[series]] = buckets[-1][1][1]
        return found

    def peaks(self, role: str | None = None) -> Mapping[str, Mapping[str, Peak]]:
        """Task -> series -> its extremes and its mean, of a role or of all."""
        numbers = {known.number: task for task, known in self._tasks.items() if role in (None, known.role)}
        names = {number: name for name, number in self._series.items()}
        found: dict[str, dict[str, Peak]] = {}
        # As numbers, whatever stands there: of all tasks these are many rows.
        question = (
            "SELECT CAST(id AS INTEGER), CAST(known AS INTEGER), CAST(low AS REAL), CAST(middle AS REAL), "
            "CAST(high AS REAL) FROM chunk"
        )
        rows = self._ask(question, (), texts=False)
        sums: dict[tuple[int, int], list[float]] = {}
        for row, count, low, middle, high in self._each(_extremes, rows):
            series, task, _ = layout.parts(row)
            if task not in numbers or series not in names:
                continue
            total = sums.setdefault((task, series), [math.inf, 0.0, 0.0, -math.inf])
            total[0], total[3] = min(total[0], low), max(total[3], high)
            total[1] += middle * count
            total[2] += count
        for (task, series), (least, weighed, samples, most) in sums.items():
            if samples:
                found.setdefault(numbers[task], {})[names[series]] = Peak(least, weighed / samples, most)
        return found

    @property
    def known_until(self) -> float | None:
        """As `Marks`: None where the file does not say."""
        for (value,) in self._ask("SELECT value FROM about WHERE key = ?", (layout.WRITTEN,)):
            if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
                return float(value)
        return None

    # --- what programs told ---------------------------------------------------------------------------------------

    def progress(self, task: str | None = None) -> tuple[Progress, ...]:
        """How far each try came, of one task or of all, in the order of sessions and tries."""
        where, values = ("WHERE task = ?", (task,)) if task else ("", ())
        question = layout.PROGRESS if self._has_pace else layout.PROGRESS_WITHOUT_PACE
        rows = self._ask(f"{question} {where} ORDER BY session, try, task", values)
        return tuple(self._each(progress_of, rows))

    def checkpoints(self, task: str | None = None) -> tuple[CheckpointRecord, ...]:
        """What was saved, by one task or by all, in the order of time."""
        where, values = ("WHERE task = ?", (task,)) if task else ("", ())
        rows = self._ask(
            f"SELECT task, session, try, step, since, until FROM checkpoint {where} ORDER BY since", values
        )
        return tuple(self._each(_checkpoint, rows))

    # --- the file -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            ways = _ways(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self.problem = "nothing was measured"
            return
        except OSError as error:
            self.problem = f"{self._path.name} cannot be read: {error.strerror}"
            return
        for way in ways:
            try:
                database = sqlite3.connect(
                    f"file:{urllib.parse.quote(str(self._path))}?{way}",
                    uri=True,
                    timeout=_PATIENCE,
                    check_same_thread=False,
                )
            except sqlite3.Error as error:
                self.problem = str(error)
                continue
            self._database = database
            try:
                self._look(database)
            except (sqlite3.Error, ValueError) as error:
                self.problem = f"{self._path.name} cannot be read: {error}"
                self.close()
                continue
            self.problem = ""
            return

    def _look(self, database: sqlite3.Connection) -> None:
        self._deadline = clock.monotonic() + _LONGEST
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _ROW)
        database.set_progress_handler(self._too_long, _STEPS)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if application != layout.APPLICATION:
            raise ValueError("it is none of tony's")
        if version > layout.VERSION:
            raise ValueError(f"it has version {version}; this tony reads up to {layout.VERSION}")
        self._has_pace = "pace" in _check_tables(database)
        rows = self._taken(database.execute("SELECT id, name FROM series"))
        self._series = {name: number for number, name in rows if isinstance(name, str) and series_of(name)}
        found = self._taken(database.execute("SELECT id, task, role, width FROM task"))
        self._tasks = {
            task: _Task(number, role, float(width)) for number, task, role, width in found if _sound(task, role, width)
        }

    def _taken(self, cursor: sqlite3.Cursor, *, texts: bool = True) -> list[Any]:
        return _taken(cursor, self._rows, self._text, texts=texts)

    def _too_long(self) -> int:
        return int(clock.monotonic() > self._deadline)

    def _ask(self, question: str, values: Sequence[object], *, texts: bool = True) -> list[Any]:
        """The answer to a question.

        Args:
            texts: there may be any in it.
        """
        if self._database is None:
            return []
        self._deadline = clock.monotonic() + _LONGEST
        try:
            return self._taken(self._database.execute(question, values), texts=texts)
        except (sqlite3.Error, ValueError) as error:
            self.problem = f"{self._path.name} cannot be read: {error}"
            return []

    def _each(self, make: Callable[[Any], T], rows: Iterable[Any]) -> Iterator[T]:
        for row in rows:
            try:
                yield make(row)
            except (ValueError, TypeError, OverflowError) as error:
                self.problem = f"{self._path.name} is damaged: {error}"

    def _buckets(self, task: _Task, name: str, *, newest: bool = False) -> list[tuple[int, list[float]]]:
        """Place on the grid and numbers of each bucket of a series in which there is something."""
        order = "DESC LIMIT 1" if newest else "ASC"
        question = f"SELECT id, scale, least, mean, most FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id {order}"
        rows = self._ask(question, layout.ids(self._series[name], task.number))
        return [bucket for buckets in self._each(_decoded, rows) for bucket in buckets]

    def _means_of(self, name: str) -> list[tuple[int, int, list[float]]]:
        """The number of a task, a chunk, and the means in it, of all tasks."""
        first, last = layout.row_id(self._series[name], 0, 0), layout.row_id(self._series[name] + 1, 0, 0) - 1
        rows = self._ask("SELECT id, scale, mean FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id", (first, last))
        return list(self._each(_means, rows))


def open_metrics(path: Path, *, own: bool = True) -> Metrics:
    """What was measured of a job; empty where nothing is known.

    Args:
        own: it is of our own history; of another user's less is read.
    """
    return Metrics(path, own=own)


def _ways(path: Path) -> Sequence[str]:
    """How a file may be opened.

    A writer that was killed leaves a journal, which only one who may write can play back. But a journal can name a file
    elsewhere that SQLite removes when it has done so, and a file can ask for others that are made beside it: our writer
    makes neither. So of what has that, or is not our own in a folder of our own, nothing but the file itself is looked
    at.

    Raises:
        OSError: there is no such file; or it is none.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is no plain file")
    ours = os.geteuid()
    trusted = status.st_uid == ours and os.stat(path.parent).st_uid == ours and _is_alone(path)
    return ("mode=rw", "mode=ro") if trusted else ("mode=ro&immutable=1",)


def _is_alone(path: Path) -> bool:
    """Whether a file and its journal lead to no others (https://www.sqlite.org/fileformat.html)."""
    with path.open("rb") as file:
        head = file.read(20)
    try:
        with path.with_name(f"{path.name}-journal").open("rb") as journal:
            size = journal.seek(0, os.SEEK_END)
            journal.seek(max(0, size - len(_JOURNAL)))
            named = size > len(_JOURNAL) and journal.read() == _JOURNAL
    except FileNotFoundError:
        named = False
    return head[18:20] == _ROLLS_BACK and not named


def _check_tables(database: sqlite3.Connection) -> set[str]:
    """Return the names of our tables that a file has. A view of such a name would be a program of its writer.

    Raises:
        ValueError: it is not.
    """
    question = "SELECT name, type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE %' FROM sqlite_master"
    found = set()
    for name, plain in _taken(database.execute(question), _ROWS, _TEXT_OF_OTHERS):
        if name in _TABLES:
            if not plain:
                raise ValueError(f"{name} is no table")
            found.add(name)
    for name in found:
        for column in database.execute(f"PRAGMA table_xinfo({name})"):
            if column[-1]:  # hidden: computed from others, of any length and however often it is read
                raise ValueError(f"{name}.{column[1]} is no plain column")
    return found


def _taken(cursor: sqlite3.Cursor, most: int, room: int, *, texts: bool = True) -> list[Any]:
    """All rows.

    Args:
        most: rows.
        room: bytes of text.

    Raises:
        ValueError: they are more than such a file can have.
    """
    found: list[Any] = []
    while some := cursor.fetchmany(_PORTION):
        found += some
        if texts:
            room -= sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
        if room < 0 or len(found) > most:
            raise ValueError("it has more rows than make sense")
    return found


def _sound(task: object, role: object, width: object) -> bool:
    if not isinstance(task, str) or not isinstance(role, str) or not isinstance(width, int | float):
        return False
    try:
        return TaskId.parse(task).role == role and 0 < width < math.inf
    except ValueError:
        return False


def _checkpoint(row: Sequence[Any]) -> CheckpointRecord:
    task, session, try_, step, since, until = row
    return CheckpointRecord(str(task), int(session), int(try_), int(step), float(since), float(until))


def _extremes(row: Sequence[Any]) -> tuple[int, int, float, float, float]:
    number, known, low, middle, high = row
    return int(number), int(known), float(low), float(middle), float(high)


def _decoded(row: Sequence[Any]) -> list[tuple[int, list[float]]]:
    number, scale, least, mean, most = row
    numbers = layout.decode(scale, least, mean, most)
    first = layout.parts(number)[2] * layout.CHUNK
    places = range(0, len(numbers), 3)
    return [(first + at // 3, numbers[at : at + 3]) for at in places if numbers[at + 1] == numbers[at + 1]]


def _means(row: Sequence[Any]) -> tuple[int, int, list[float]]:
    number, scale, mean = row
    _, task, chunk = layout.parts(number)
    return task, chunk, layout.decode(scale, None, mean, None)[1::3]


def _between(
    buckets: list[tuple[int, list[float]]], width: float, since: float | None, until: float | None
) -> list[tuple[int, list[float]]]:
    if since is not None:
        buckets = [bucket for bucket in buckets if (bucket[0] + 1) * width > since]
    if until is not None:
        buckets = [bucket for bucket in buckets if bucket[0] * width < until]
    return buckets


def _thinned(
    buckets: list[tuple[int, list[float]]], width: float, most: int
) -> tuple[float, list[tuple[int, list[float]]]]:
    """The same in so many buckets at most, each two neighbours made one as often as it takes."""
    while len(buckets) > most:
        merged: dict[int, list[list[float]]] = {}
        for place, numbers in buckets:
            merged.setdefault(place >> 1, []).append(numbers)
        if len(merged) == len(buckets) and buckets[-1][0] < 2:
            break
        buckets = [
            (place, [min(n[0] for n in each), sum(n[1] for n in each) / len(each), max(n[2] for n in each)])
            for place, each in merged.items()
        ]
        width *= 2
    return width, buckets


#: In each bucket of a role: the means of its tasks, and whose they are.
_Column = tuple[list[float], list[int]]


def _columns(
    rows: Iterable[tuple[int, int, list[float]]],
    widths: Mapping[int, float],
    width: float,
    since: float | None,
    until: float | None,
) -> dict[int, _Column]:
    """The means of tasks by place on the grid of `width`, which each of theirs divides."""
    columns: dict[int, _Column] = {}
    narrow: dict[tuple[int, int], list[float]] = {}
    for number, chunk, means in rows:
        own = widths[number]
        share = max(1, round(width / own))
        for place, value in enumerate(means, chunk * layout.CHUNK):
            if value != value or (since is not None and (place + 1) * own <= since):
                continue
            if until is not None and place * own >= until:
                break
            if share > 1:
                narrow.setdefault((place // share, number), []).append(value)
                continue
            column = columns.get(place)
            if column is None:
                column = columns[place] = [], []
            column[0].append(value)
            column[1].append(number)
    for (place, number), values in narrow.items():
        found = columns.setdefault(place, ([], []))
        found[0].append(sum(values) / len(values))
        found[1].append(number)
    return columns


def _summed_up(
    role: str, name: str, width: float, columns: Mapping[int, _Column], names: Mapping[int, str]
) -> RolePoints:
    places = sorted(columns)
    lows = [min(columns[place][0]) for place in places]
    highs = [max(columns[place][0]) for place in places]
    return RolePoints(
        role=role,
        series=name,
        every=width,
        at=tuple((place + 1) * width for place in places),
        least=tuple(lows),
        median=tuple(_median(columns[place][0]) for place in places),
        most=tuple(highs),
        least_of=tuple(_whose(columns[place], low, names) for place, low in zip(places, lows, strict=True)),
        most_of=tuple(_whose(columns[place], high, names) for place, high in zip(places, highs, strict=True)),
        tasks=tuple(len(columns[place][0]) for place in places),
    )


def _whose(column: _Column, value: float, names: Mapping[int, str]) -> str:
    return names[column[1][column[0].index(value)]]


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
