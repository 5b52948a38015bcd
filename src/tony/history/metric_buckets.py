"""Metrics in buckets of time: cut, merged into fewer, and aggregated over the tasks of a role. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tony.history import metrics_schema as layout

#: A bucket: its position on the grid; minimum, mean and maximum.
Bucket = tuple[int, list[float]]
#: A bucket of a role: the means of its tasks, and the numbers of these tasks.
_Column = tuple[list[float], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePoints:
    """One series of all tasks of a role: in each bucket the median of the task means, with minimum and maximum.

    Attributes:
        at: ends of the buckets of `every` seconds, since the job was accepted.
        least, most: the lowest and the highest mean of a task.
        least_of, most_of: the tasks with these means.
        tasks: number of tasks with data in the bucket.
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


def clip(buckets: list[Bucket], width: float, since: float | None, until: float | None) -> list[Bucket]:
    """Return the buckets between two times."""
    if since is not None:
        buckets = [bucket for bucket in buckets if (bucket[0] + 1) * width > since]
    if until is not None:
        buckets = [bucket for bucket in buckets if bucket[0] * width < until]
    return buckets


def downsample(buckets: list[Bucket], width: float, most: int) -> tuple[float, list[Bucket]]:
    """Merge neighbouring buckets until there are at most `most`; return their width and the buckets."""
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


def group_by_bucket(
    rows: Iterable[tuple[int, int, list[float]]],
    widths: Mapping[int, float],
    width: float,
    since: float | None,
    until: float | None,
) -> dict[int, _Column]:
    """Return the task means by position on the grid of `width`, a multiple of each task's own width."""
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


def build_role_points(
    role: str, name: str, width: float, columns: Mapping[int, _Column], names: Mapping[int, str]
) -> RolePoints:
    """Return the points of a role from its buckets.

    Args:
        names: number of a task -> its name.
    """
    places = sorted(columns)
    lows = [min(columns[place][0]) for place in places]
    highs = [max(columns[place][0]) for place in places]
    return RolePoints(
        role=role,
        series=name,
        every=width,
        at=tuple((place + 1) * width for place in places),
        least=tuple(lows),
        median=tuple(statistics.median(columns[place][0]) for place in places),
        most=tuple(highs),
        least_of=tuple(_task_with(columns[place], low, names) for place, low in zip(places, lows, strict=True)),
        most_of=tuple(_task_with(columns[place], high, names) for place, high in zip(places, highs, strict=True)),
        tasks=tuple(len(columns[place][0]) for place in places),
    )


def _task_with(column: _Column, value: float, names: Mapping[int, str]) -> str:
    return names[column[1][column[0].index(value)]]
