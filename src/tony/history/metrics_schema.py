"""The schema of `metrics.db`: the metrics of a job's tasks, as an SQLite database.

For use with the `sqlite3` command line or any other tool:

    SELECT * FROM points WHERE task = 'worker:0' AND series = 'rss';
    SELECT * FROM peaks WHERE role = 'worker';
    SELECT * FROM progress; SELECT * FROM checkpoint;

Times are seconds since the job was accepted. Numbers are stored in `chunk` rows of up to `CHUNK` buckets, as JSON
arrays of integers times the row's scale: compact, and readable by SQLite. A row's id combines series, task and position
on the grid of buckets, in this order, so that no further index is needed. The last row of a series also has
its newest value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tony.model.progress import Progress

#: SQLite's application id: "Tony" in ASCII.
APPLICATION = 0x546F6E79
#: Incremented when an older reader could misread a newer file.
VERSION = 3
#: Buckets of a row.
CHUNK = 32
#: Rows of one series of one task from first to last, at most; the AM keeps at most half as many buckets.
MAX_CHUNKS = 64
#: Bits of a row's id for the chunk's position, and for the task.
PLACE_BITS = 24
_TASK_BITS = 24
#: Largest absolute value of the integers in a row; fewer digits if there are very many series.
FINE = 999_999
COARSE = 999
#: Number of series from which on `COARSE` is used.
MANY_SERIES = 20_000
#: Characters of a row's text, at most; readers refuse longer ones.
MAX_TEXT_CHARACTERS = 64 * CHUNK

#: Key in `about`: the time up to which the file is complete, in seconds since the job was accepted.
WRITTEN = "written"
#: The rows of `progress`, for `decode_progress`.
PROGRESS = "SELECT * FROM progress"

SCHEMA = f"""
CREATE TABLE about (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT, what TEXT, of_host INTEGER);
CREATE TABLE task (id INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE, role TEXT NOT NULL, width REAL NOT NULL);
CREATE TABLE chunk (
  id INTEGER PRIMARY KEY, scale REAL NOT NULL, least TEXT, mean TEXT NOT NULL, most TEXT,
  known INTEGER, low REAL, middle REAL, high REAL, last REAL);
CREATE TABLE progress (
  task TEXT, session INTEGER, try INTEGER, first_step REAL, first_at REAL, step REAL, at REAL, total REAL,
  regained REAL, behind INTEGER, unlisted REAL, stalled_after REAL, stalls TEXT, changed_at REAL, recent_rate REAL,
  PRIMARY KEY (task, session, try)) WITHOUT ROWID;
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
    """The changes of one task's metrics.

    Attributes:
        width: seconds of a bucket.
        anew: discard what was written of this task before.
        first: position of the first bucket of each series below.
        series: name -> least, mean, most of each bucket from `first` on; NaN for no data.
        last: name -> newest value, as far as it is known.
    """

    task: str
    role: str
    width: float
    anew: bool
    first: int
    series: Mapping[str, Sequence[float]]
    last: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredTaskMetrics:
    """The stored metrics of one task; see `TaskMetricsUpdate`."""

    task: str
    width: float
    first: int
    series: Mapping[str, Sequence[float]]
    last: Mapping[str, float] = field(default_factory=dict)


#: One row of `chunk`, without `last`: the newest value in it, which is known of the last row of a series.
Row = tuple[int, float, str | None, str, str | None, int, float, float, float]


def row_id(series: int, task: int, chunk: int) -> int:
    """Return the id of a row."""
    return (series << (PLACE_BITS + _TASK_BITS)) + (task << PLACE_BITS) + chunk


def ids(series: int, task: int) -> tuple[int, int]:
    """Return the first and last possible row id of one series of one task."""
    first = row_id(series, task, 0)
    return first, first + (1 << PLACE_BITS) - 1


def parts(row: int) -> tuple[int, int, int]:
    """Split a row id into series, task and chunk."""
    chunk = row & ((1 << PLACE_BITS) - 1)
    return row >> (PLACE_BITS + _TASK_BITS), (row >> PLACE_BITS) & ((1 << _TASK_BITS) - 1), chunk


def encode(row: int, numbers: Sequence[float], digits: int) -> Row | None:
    """Encode one chunk as a row; return None if it has no data.

    Args:
        numbers: least, mean, most of each bucket; NaN for no data.
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
    scale = 1.0 if whole and high.is_integer() else _choose_scale(largest, digits)
    flat = all(a == b == c or b != b for a, b, c in zip(least, mean, most, strict=True))
    return (
        row,
        scale,
        None if flat else _encode_numbers(least, scale),
        _encode_numbers(mean, scale),
        None if flat else _encode_numbers(most, scale),
        len(known),
        low,
        math.fsum(known) / len(known),
        high,
    )


def _choose_scale(largest: float, digits: int) -> float:
    """Return the scale at which no number exceeds `digits`: 1, 2 or 5 times a power of ten, so that 0.5 stays exact."""
    least = largest / digits
    if not least > 1e-300:
        return 1.0
    power = math.floor(math.log10(least))
    scales = (float(f"{factor}e{power}") for factor in (1, 2, 5, 10, 20))
    return next(scale for scale in scales if scale >= least)


def _encode_numbers(values: Sequence[float], scale: float) -> str:
    return json.dumps([round(v / scale) if v == v else None for v in values], separators=(",", ":"))


def decode(scale: float, least: str | None, mean: str, most: str | None) -> list[float]:
    """Decode the numbers of a row.

    Raises:
        ValueError: the row is invalid.
    """
    middle = _decode_numbers(mean, scale)
    low = middle if least is None else _decode_numbers(least, scale)
    high = middle if most is None else _decode_numbers(most, scale)
    if not len(low) == len(middle) == len(high) <= CHUNK:
        raise ValueError("a row whose arrays differ in length or are too long")
    made = [math.nan] * (3 * len(middle))
    made[0::3], made[1::3], made[2::3] = low, middle, high
    return made


def _decode_numbers(text: str, scale: float) -> list[float]:
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS:
        raise ValueError("a row that is too long")
    values = json.loads(text)
    if not isinstance(values, list):
        raise ValueError("a row without numbers")
    if 0 < scale < 1:  # division is exact for tenths and the like
        parts = round(1 / scale)
        return [math.nan if v is None else v / parts for v in values]
    return [math.nan if v is None else float(v) * scale for v in values]


def encode_progress(p: Progress) -> tuple[object, ...]:
    """Return a row of the table `progress`."""
    return (
        *(p.task, p.session, p.try_, p.first_step, p.first_at, p.step, p.at),
        *(p.total, p.regained, int(p.behind), p.unlisted),
        *(p.stalled_after, json.dumps(p.stalls), p.changed_at, p.recent_rate),
    )


def decode_progress(row: Sequence[object]) -> Progress:
    """Decode a row of the table `progress`.

    Raises:
        ValueError: it is invalid.
    """
    (
        task,
        session,
        try_,
        first_step,
        first_at,
        step,
        at,
        total,
        regained,
        behind,
        unlisted,
        after,
        stalls,
        changed_at,
        recent_rate,
    ) = row
    if not isinstance(task, str) or not isinstance(session, int) or not isinstance(try_, int):
        raise ValueError("invalid row of progress")
    return Progress(
        task=task,
        session=session,
        try_=try_,
        first_step=_decode_number(first_step),
        first_at=_decode_number(first_at),
        step=_decode_number(step),
        at=_decode_number(at),
        total=None if total is None else _decode_number(total),
        regained=None if regained is None else _decode_number(regained),
        behind=bool(behind),
        unlisted=_decode_number(unlisted),
        stalled_after=None if after is None else _decode_number(after),
        stalls=() if stalls is None else _parse_stalls(stalls),
        changed_at=None if changed_at is None else _decode_number(changed_at),
        recent_rate=None if recent_rate is None else _decode_number(recent_rate),
    )


def _parse_stalls(text: object) -> tuple[tuple[float, float], ...]:
    """Return the stalls of a task attempt, in order and without overlap.

    Raises:
        ValueError: the text is invalid.
    """
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except RecursionError as error:
        raise ValueError("stalls are nested too deeply") from error
    if not isinstance(found, list) or not all(isinstance(each, list) and len(each) == 2 for each in found):
        raise ValueError("stalls are not a list of pairs")
    try:
        stalls = tuple((_decode_number(since), _decode_number(until)) for since, until in found)
    except OverflowError as error:
        raise ValueError("a stall has an infinite time") from error
    edges = [0.0, *(edge for stall in stalls for edge in stall)]
    if edges != sorted(edges):
        raise ValueError("stalls are not in order")
    return stalls


def _decode_number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} is not a finite number")
    return float(value)
