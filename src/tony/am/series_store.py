"""Metrics of a job's tasks in bounded memory: the longer the job runs, the wider the buckets.

Time is cut into buckets on a grid that begins when the job was accepted. A bucket keeps the minimum, the mean and the
maximum of each series. When a task has more buckets than fit, neighbouring pairs are merged. All widths are the first
one times a power of two, so that buckets of different tasks nest.

How many buckets fit depends on the number of series: a small job keeps a thousand of each, one of 10,000 tasks about
fifty.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tony.history.metrics_schema import CHUNK, TaskMetricsUpdate
from tony.model.ids import parse_role
from tony.model.metric_definitions import MAX_POINTS, Points

#: Bytes that all buckets may take.
MAX_BUCKET_BYTES = 140_000_000
#: Buckets of one series, at least and at most; even, so that they can be halved.
MIN_BUCKETS = 32
MAX_BUCKETS = 1024
#: Bytes of a bucket, and of an array object.
_BUCKET_BYTES = 12
_ARRAY_BYTES = 112
#: Expected series of a task: those of its program, without devices.
_USUAL_SERIES_COUNT = 17
#: Maximum number of different series names in a job.
MAX_NAMES = 512
#: Maximum numbers and series of one answer: a message holds a megabyte.
_MAX_ANSWER_NUMBERS = 40_000
_MAX_ANSWER_SERIES = 4_000
#: The value of an empty bucket.
EMPTY = math.nan
_LARGEST = 3.0e38


@dataclass(slots=True, eq=False)
class Track:
    """All series of one task.

    Attributes:
        level: its buckets are 2**level times as wide as the first ones.
        first: index of the first bucket on the grid.
        counts: samples in each bucket.
        allocated: allocated buckets of each column: growing bit by bit would fragment memory.
        columns: by number of the name: three numbers a bucket, or None.
        last: by number of the name: the newest value.
        dirty: index of the first bucket that has changed since it was written; None if none has.
        anew: all of it must be rewritten.
    """

    task: str
    number: int
    level: int = 0
    first: int = 0
    counts: array[int] = field(default_factory=lambda: array("I"))
    allocated: int = 0
    columns: list[array[float] | None] = field(default_factory=list)
    last: array[float] = field(default_factory=lambda: array("f"))
    dirty: int | None = None
    anew: bool = False

    @property
    def end(self) -> int:
        """Index after the last bucket."""
        return self.first + len(self.counts)


class SeriesStore:
    """All series of a job.

    Args:
        tasks: their names, in the order of the job.
        interval: seconds between two samples of one task.
        budget: bytes.
    """

    def __init__(self, tasks: Sequence[str], interval: float, budget: int = MAX_BUCKET_BYTES) -> None:
        self.interval = interval
        self.tracks = {name: Track(name, number) for number, name in enumerate(tasks)}
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._budget = budget
        self._arrays = 0

    @property
    def capacity(self) -> int:
        """The number of buckets that one series may have now."""
        expected = max(self._arrays, len(self.tracks) * _USUAL_SERIES_COUNT, 1)
        fit = (self._budget // expected - _ARRAY_BYTES) // _BUCKET_BYTES
        return max(MIN_BUCKETS, min(MAX_BUCKETS, fit)) & ~1

    @property
    def columns(self) -> int:
        """The number of series of all tasks together."""
        return self._arrays

    def find_bucket_width(self, track: Track) -> float:
        """Return the width of a bucket in seconds."""
        return float(self.interval * (1 << track.level))

    def add(self, task: str, at: float, values: Mapping[str, float]) -> None:
        """Add one sample.

        Args:
            at: seconds since the job was accepted.
            values: by name.
        """
        track = self.tracks.get(task)
        if track is None or not values:
            return
        place = self._ensure_bucket(track, at)
        offset, count = place - track.first, track.counts[place - track.first] + 1
        track.counts[offset] = count
        track.dirty = place if track.dirty is None else min(track.dirty, place)
        at3 = 3 * offset
        for name, value in values.items():
            column = self._ensure_column(track, name)
            if column is None:
                continue
            value = min(max(value, -_LARGEST), _LARGEST)
            track.last[self._numbers[name]] = value
            mean = column[at3 + 1]
            if mean != mean:
                column[at3] = column[at3 + 1] = column[at3 + 2] = value
                continue
            if value < column[at3]:
                column[at3] = value
            column[at3 + 1] = mean + (value - mean) / count
            if value > column[at3 + 2]:
                column[at3 + 2] = value

    def restore(
        self,
        task: str,
        level: int,
        first: int,
        columns: Mapping[str, Sequence[float]],
        last: Mapping[str, float] | None = None,
    ) -> None:
        """Take what an earlier AM attempt stored of a task, before its first sample in this one.

        Args:
            columns: by name, three numbers a bucket, all of one length.
            last: the newest value of each, as far as they are known.
        """
        track = self.tracks.get(task)
        count = max((len(column) // 3 for column in columns.values()), default=0)
        if track is None or not count:
            return
        track.level, track.first, track.allocated = level, first, count
        track.counts = array("I", [1 << level] * count)
        for name, numbers in columns.items():
            column = self._ensure_column(track, name)
            if column is not None:
                column[: len(numbers)] = array("f", numbers)
                track.last[self._numbers[name]] = (last or {}).get(name, EMPTY)
        track.anew, track.dirty = True, first

    def answer(self, tasks: Collection[str], names: Collection[str], most: int) -> tuple[tuple[Points, ...], bool]:
        """Return the newest buckets of some series, and whether there are more than one message may hold.

        Args:
            tasks, names: empty for all.
        """
        found: list[Points] = []
        numbers_left = _MAX_ANSWER_NUMBERS
        for points in self._select(tasks, names, max(1, min(most, MAX_POINTS))):
            numbers_left -= 4 * len(points.at)
            if numbers_left < 0 or len(found) == _MAX_ANSWER_SERIES:
                return tuple(found), True
            found.append(points)
        return tuple(found), False

    def find_last(self, task: str, name: str) -> float | None:
        """Return the newest value of a series; None without one."""
        track, number = self.tracks.get(task), self._numbers.get(name)
        if track is None or number is None or number >= len(track.last) or math.isnan(track.last[number]):
            return None
        return _round_to_float32(track.last[number])

    def take_update(self, track: Track) -> TaskMetricsUpdate:
        """Return what has changed of a task since the last call, in whole chunks."""
        dirty = track.first if track.anew or track.dirty is None else track.dirty
        first = max(track.first, dirty - dirty % CHUNK)
        begin, end = 3 * (first - track.first), 3 * len(track.counts)
        columns = {self.names[number]: column for number, column in enumerate(track.columns) if column is not None}
        update = TaskMetricsUpdate(
            task=track.task,
            role=parse_role(track.task),
            width=self.find_bucket_width(track),
            anew=track.anew,
            first=first,
            series={name: column[begin:end] for name, column in columns.items()},
            last={name: value for name in columns if (value := self.find_last(track.task, name)) is not None},
        )
        track.dirty, track.anew = None, False
        return update

    def _select(self, tasks: Collection[str], names: Collection[str], most: int) -> Iterator[Points]:
        numbers = [self._numbers[name] for name in names if name in self._numbers] if names else range(len(self.names))
        tracks = [self.tracks[name] for name in tasks if name in self.tracks] if tasks else self.tracks.values()
        for track in tracks:
            for number in numbers:
                column = track.columns[number] if number < len(track.columns) else None
                if column is not None:
                    yield self._build_points(track, self.names[number], column, most)

    def _build_points(self, track: Track, name: str, column: array[float], most: int) -> Points:
        # A new step is sent alone: the newest bucket may have numbers of some series only.
        numbers = (each for each in reversed(range(len(track.counts))) if not math.isnan(column[3 * each + 1]))
        places = list(islice(numbers, most))[::-1]
        width = self.find_bucket_width(track)
        return Points(
            task=track.task,
            series=name,
            every=width,
            at=tuple((track.first + place + 1) * width for place in places),
            least=tuple(_round_to_float32(column[3 * place]) for place in places),
            mean=tuple(_round_to_float32(column[3 * place + 1]) for place in places),
            most=tuple(_round_to_float32(column[3 * place + 2]) for place in places),
            last=self.find_last(track.task, name),
        )

    # --- buckets --------------------------------------------------------------------------------------------------

    def _ensure_bucket(self, track: Track, at: float) -> int:
        """Return the index of the bucket for a time, creating buckets as needed."""
        steps = int(max(0.0, at) / self.interval)
        if not track.counts:
            track.first = steps >> track.level
        capacity = self.capacity
        while (steps >> track.level) - track.first >= capacity:
            _halve(track)
        place = max(steps >> track.level, track.first)
        if place >= track.end:
            track.counts.extend([0] * (place + 1 - track.end))
            if len(track.counts) > track.allocated:
                _grow(track, capacity)
        return place

    def _ensure_column(self, track: Track, name: str) -> array[float] | None:
        """Return a series of a task; None if there is no room for another one."""
        number = self._numbers.get(name)
        if number is None:
            if len(self.names) >= MAX_NAMES:
                return None
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        if number >= len(track.columns):
            missing = number + 1 - len(track.columns)
            track.columns.extend([None] * missing)
            track.last.extend([EMPTY] * missing)
        column = track.columns[number]
        if column is None:
            if (self._arrays + 1) * (_ARRAY_BYTES + _BUCKET_BYTES * MIN_BUCKETS) > self._budget:
                return None
            self._arrays += 1
            column = track.columns[number] = array("f", [EMPTY]) * (3 * track.allocated)
            track.dirty = track.first if track.dirty is None else track.dirty
        return column


def _grow(track: Track, capacity: int) -> None:
    """Allocate more buckets: as many as there may be, if those are few."""
    allocated = min(max(2 * track.allocated, len(track.counts), 2 * MIN_BUCKETS), max(capacity, len(track.counts)))
    nothing = array("f", [EMPTY]) * (3 * (allocated - track.allocated))
    for column in track.columns:
        if column is not None:
            column.extend(nothing)
    track.allocated = allocated


def _halve(track: Track) -> None:
    """Merge each pair of neighbouring buckets on the grid."""
    odd, counts = track.first & 1, track.counts
    if odd:
        counts = array("I", [0]) + counts
    if len(counts) & 1:
        counts.append(0)
    ahead, behind = counts[0::2], counts[1::2]
    for column in track.columns:
        if column is not None:
            made = _halve_column(column[: 3 * len(track.counts)], odd, ahead, behind)
            column[: len(made)] = made
            left = len(column) - len(made)
            column[len(made) :] = array("f", [EMPTY]) * left
    track.counts = array("I", [a + b for a, b in zip(ahead, behind, strict=True)])
    track.first >>= 1
    track.level += 1
    track.anew, track.dirty = True, track.first


def _halve_column(column: array[float], odd: int, ahead: Sequence[int], behind: Sequence[int]) -> array[float]:
    """Return one series in half as many buckets.

    Args:
        odd: 1 if its first bucket is the later half of a new one.
        ahead, behind: samples in the first and the second of each pair.
    """
    nothing = array("f", [EMPTY] * 3)
    if odd:
        column = nothing + column
    if len(column) % 6:
        column = column + nothing
    made = array("f", column[: len(column) // 2])
    # NaN differs from itself.
    made[0::3] = array("f", [a if a <= b or b != b else b for a, b in _iterate_pairs(column, 0)])
    made[1::3] = array(
        "f",
        [
            b if a != a else a if b != b else (a * m + b * n) / (m + n)
            for (a, b), m, n in zip(_iterate_pairs(column, 1), ahead, behind, strict=True)
        ],
    )
    made[2::3] = array("f", [a if a >= b or b != b else b for a, b in _iterate_pairs(column, 2)])
    return made


def _iterate_pairs(column: array[float], of: int) -> Iterator[tuple[float, float]]:
    return zip(column[of::6], column[of + 3 :: 6], strict=True)


def _round_to_float32(value: float) -> float:
    """Round to the precision of a 32-bit float."""
    return float(f"{value:.7g}")
