"""How `metrics.db` is laid out: what was measured of a job's tasks, as an SQLite database.

For people, with the `sqlite3` command line or any other tool:

    SELECT * FROM points WHERE task = 'worker:0' AND series = 'rss';
    SELECT * FROM peaks WHERE role = 'worker';
    SELECT * FROM progress; SELECT * FROM checkpoint;

Times are seconds since the job was accepted. Numbers lie in `chunk` rows of up to `CHUNK` buckets, as whole numbers
times the row's scale: that is compact, and JSON, which SQLite reads. A row's id says whose it is, so that no further
index is needed: the series first, then the task, then the place on the grid of buckets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from tony.dataclass import dataclass

#: "Tony" as a number: what makes the file one of these.
APPLICATION = 0x546F6E79
#: Raised when a reader of an older version could misread a newer file.
VERSION = 1
#: Buckets of a row.
CHUNK = 32
#: Rows from the first to the last of one series, at most: no master keeps more buckets than half of these hold.
MOST_CHUNKS = 64
#: Bits of a row's id: for the place, in chunks, and for the task.
PLACE_BITS, _TASK_BITS = 24, 24
#: A row's numbers are whole ones up to this; fewer digits where there are very many series.
FINE, COARSE = 999_999, 999
#: Series from which on they have fewer.
MANY = 20_000
#: Characters of a row's text, at most: nobody reads longer ones.
LONGEST = 64 * CHUNK

#: Beside `progress`, whose columns older readers count: after how many seconds without a report a try counts as
#: stalled, from when to when it was, as JSON, and when its step last changed.
PACE = """CREATE TABLE IF NOT EXISTS pace (
  task TEXT, session INTEGER, try INTEGER, stalled_after REAL, stalls TEXT, changed_at REAL,
  PRIMARY KEY (task, session, try)) WITHOUT ROWID;"""
#: The key in `about` of the moment up to which the file is complete, in seconds since the job was accepted.
WRITTEN = "written"
#: Columns of the two tables, for a query that joins them, and for files without `pace`.
PROGRESS_COLUMNS = (
    "task, session, try, first_step, first_at, step, at, total, regained, behind, unlisted, stalled_after, stalls, "
    "changed_at"
)
PROGRESS = f"SELECT {PROGRESS_COLUMNS} FROM progress LEFT JOIN pace USING (task, session, try)"
PROGRESS_WITHOUT_PACE = "SELECT *, NULL, NULL, NULL FROM progress"

SCHEMA = f"""
CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT, what TEXT, of_host INTEGER);
CREATE TABLE task (id INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE, role TEXT NOT NULL, width REAL NOT NULL);
CREATE TABLE chunk (
  id INTEGER PRIMARY KEY, scale REAL NOT NULL, least TEXT, mean TEXT NOT NULL, most TEXT,
  known INTEGER, low REAL, middle REAL, high REAL);
CREATE TABLE progress (
  task TEXT, session INTEGER, try INTEGER, first_step REAL, first_at REAL, step REAL, at REAL, total REAL,
  regained REAL, behind INTEGER, unlisted REAL, PRIMARY KEY (task, session, try)) WITHOUT ROWID;
{PACE}
CREATE TABLE checkpoint (task TEXT, session INTEGER, try INTEGER, step INTEGER, since REAL, until REAL);
CREATE VIEW points AS
  SELECT task.task, task.role, series.name AS series, series.unit,
    ((chunk.id & {(1 << PLACE_BITS) - 1}) * {CHUNK} + mean.key) * task.width AS since,
    ((chunk.id & {(1 << PLACE_BITS) - 1}) * {CHUNK} + mean.key + 1) * task.width AS until,
    coalesce(json_extract(chunk.least, '$[' || mean.key || ']'), mean.value) * chunk.scale AS least,
    mean.value * chunk.scale AS mean,
    coalesce(json_extract(chunk.most, '$[' || mean.key || ']'), mean.value) * chunk.scale AS most
  FROM series, task, chunk, json_each(chunk.mean) AS mean
  WHERE chunk.id BETWEEN (series.id << {PLACE_BITS + _TASK_BITS}) + (task.id << {PLACE_BITS})
      AND (series.id << {PLACE_BITS + _TASK_BITS}) + (task.id << {PLACE_BITS}) + {(1 << PLACE_BITS) - 1}
    AND mean.value IS NOT NULL;
CREATE VIEW peaks AS
  SELECT task.task, task.role, series.name AS series, series.unit, min(chunk.low) AS least,
    sum(chunk.middle * chunk.known) / sum(chunk.known) AS mean, max(chunk.high) AS most
  FROM series, task, chunk
  WHERE chunk.id BETWEEN (series.id << {PLACE_BITS + _TASK_BITS}) + (task.id << {PLACE_BITS})
    AND (series.id << {PLACE_BITS + _TASK_BITS}) + (task.id << {PLACE_BITS}) + {(1 << PLACE_BITS) - 1}
  GROUP BY series.id, task.id;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True, slots=True)
class TaskMetricsUpdate:
    """What has changed of one task.

    Attributes:
        width: seconds of a bucket.
        anew: nothing that was written of it before holds.
        first: place of the first bucket of each series below.
        series: name -> least, mean, most of each bucket from `first` on; NaN where nothing was measured.
    """

    task: str
    role: str
    width: float
    anew: bool
    first: int
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class StoredTaskMetrics:
    """What the file holds of one task; see `TaskMetricsUpdate`."""

    task: str
    width: float
    first: int
    series: Mapping[str, Sequence[float]]


#: One row of `chunk`.
Row = tuple[int, float, str | None, str, str | None, int, float, float, float]


def row_id(series: int, task: int, chunk: int) -> int:
    """Which row it is."""
    return (series << (PLACE_BITS + _TASK_BITS)) + (task << PLACE_BITS) + chunk


def ids(series: int, task: int) -> tuple[int, int]:
    """First and last id that the rows of one series of one task may have."""
    first = row_id(series, task, 0)
    return first, first + (1 << PLACE_BITS) - 1


def parts(row: int) -> tuple[int, int, int]:
    """The series, the task and the chunk of a row."""
    chunk = row & ((1 << PLACE_BITS) - 1)
    return row >> (PLACE_BITS + _TASK_BITS), (row >> PLACE_BITS) & ((1 << _TASK_BITS) - 1), chunk


def encode(row: int, numbers: Sequence[float], digits: int) -> Row | None:
    """One chunk as a row; None if nothing is in it.

    Args:
        numbers: least, mean, most of each bucket; NaN where nothing was measured.
        digits: `FINE` or `COARSE`.
    """
    least, mean, most = numbers[0::3], numbers[1::3], numbers[2::3]
    known = [value for value in mean if value == value]
    if not known:
        return None
    low = min(value for value in least if value == value)
    high = max(value for value in most if value == value)
    largest = max(abs(low), abs(high))
    whole = largest <= digits and all(value.is_integer() for value in known) and low.is_integer()
    scale = 1.0 if whole and high.is_integer() else _scale(largest, digits)
    flat = all(a == b == c or b != b for a, b, c in zip(least, mean, most, strict=True))
    return (
        row,
        scale,
        None if flat else _text(least, scale),
        _text(mean, scale),
        None if flat else _text(most, scale),
        len(known),
        low,
        math.fsum(known) / len(known),
        high,
    )


def _scale(largest: float, digits: int) -> float:
    """The unit in which no number is longer: 1, 2 or 5 times a power of ten, so that 0.5 stays that."""
    least = largest / digits
    if not least > 1e-300:
        return 1.0
    power = math.floor(math.log10(least))
    scales = (float(f"{factor}e{power}") for factor in (1, 2, 5, 10, 20))
    return next(scale for scale in scales if scale >= least)


def _text(values: Sequence[float], scale: float) -> str:
    return json.dumps([round(v / scale) if v == v else None for v in values], separators=(",", ":"))


def decode(scale: float, least: str | None, mean: str, most: str | None) -> list[float]:
    """The numbers of a row again.

    Raises:
        ValueError: it is no such row.
    """
    middle = _numbers(mean, scale)
    low = middle if least is None else _numbers(least, scale)
    high = middle if most is None else _numbers(most, scale)
    if not len(low) == len(middle) == len(high) <= CHUNK:
        raise ValueError("a row of buckets that do not fit together")
    made = [math.nan] * (3 * len(middle))
    made[0::3], made[1::3], made[2::3] = low, middle, high
    return made


def _numbers(text: str, scale: float) -> list[float]:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError("a row that is too long")
    values = json.loads(text)
    if not isinstance(values, list):
        raise ValueError("a row without numbers")
    if 0 < scale < 1:  # exact for tenths and the like
        parts = round(1 / scale)
        return [math.nan if v is None else v / parts for v in values]
    return [math.nan if v is None else float(v) * scale for v in values]
