"""The metrics of a job as tables, and as CSV. Pure."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tony.cli.terminal.terminal_text import format_table
from tony.cli.text.metric_values import NOTHING, draw_sparkline, format_measure
from tony.control_characters import escape
from tony.history.metric_buckets import RolePoints
from tony.history.metrics_reader import Peak
from tony.jobs.job_metrics import find_last_value
from tony.model.metric_definitions import Points, find_unit
from tony.units import Unit

#: Width of a sparkline.
_SPARK_COLUMNS = 24
_TASK_HEADING = ("TASK", "SERIES", "NEWEST", "MEAN", "LEAST", "MOST", "")
_ROLE_HEADING = ("ROLE", "SERIES", "TASKS", "MEDIAN", "LEAST", "MOST", "")
_CSV_HEADING = ("task", "series", "unit", "at", "time", "every", "least", "mean", "most")


def format_task_table(measured: Sequence[Points], columns: int | None, *, unicode: bool) -> list[str]:
    """Return a row for each series of each task."""
    return format_table([_TASK_HEADING, *(_format_row(points, unicode=unicode) for points in measured)], columns)


def _format_row(points: Points, *, unicode: bool) -> tuple[str, ...]:
    unit = find_unit(points.series)
    known = [value for value in points.mean if value == value]
    return (
        escape(points.task),
        escape(points.series),
        format_measure(find_last_value(points), unit),
        format_measure(statistics.fmean(known) if known else None, unit),
        format_measure(min(points.least, default=None), unit),
        format_measure(max(points.most, default=None), unit),
        _draw_spark(_insert_gaps(points.at, points.mean, points.every), unit, unicode=unicode),
    )


def format_role_table(
    measured: Iterable[tuple[RolePoints, Mapping[str, Peak]]], columns: int | None, *, unicode: bool
) -> list[str]:
    """Return a row for each series of each role: the median of its tasks' means, and the tasks with the extremes.

    Args:
        measured: each series with the extremes of its tasks.
    """
    rows = [_format_role_row(points, peaks, unicode=unicode) for points, peaks in measured if peaks]
    return format_table([_ROLE_HEADING, *rows], columns)


def _format_role_row(points: RolePoints, peaks: Mapping[str, Peak], *, unicode: bool) -> tuple[str, ...]:
    unit = find_unit(points.series)
    least = min(peaks, key=lambda task: peaks[task].mean)
    most = max(peaks, key=lambda task: peaks[task].mean)
    middle = statistics.median(peak.mean for peak in peaks.values())
    return (
        escape(points.role),
        escape(points.series),
        str(len(peaks)),
        format_measure(middle, unit),
        f"{format_measure(peaks[least].mean, unit)} ({escape(least)})",
        f"{format_measure(peaks[most].mean, unit)} ({escape(most)})",
        _draw_spark(_insert_gaps(points.at, points.median, points.every), unit, unicode=unicode),
    )


def _draw_spark(values: Sequence[float | None], unit: Unit, *, unicode: bool) -> str:
    return draw_sparkline(values, _SPARK_COLUMNS, unicode=unicode, from_zero=unit is not Unit.NONE) or NOTHING


def _insert_gaps(at: Sequence[float], values: Sequence[float], every: float) -> list[float | None]:
    """Return the values with None for each missing sample; for long gaps as many as the sparkline has columns."""
    found: list[float | None] = []
    for place, value in enumerate(values):
        if place and every > 0:
            found += [None] * min(_SPARK_COLUMNS, round((at[place] - at[place - 1]) / every) - 1)
        found.append(value)
    return found


def format_csv_heading() -> str:
    """Return the heading of the CSV."""
    return _join_cells(_CSV_HEADING)


def format_csv_lines(measured: Iterable[Points], accepted: float | None) -> Iterator[str]:
    """Yield one CSV line for each point.

    Args:
        accepted: when the job was accepted, seconds since 1970; None if unknown.
    """
    for points in measured:
        unit = find_unit(points.series).value
        for place, at in enumerate(points.at):
            moment = "" if accepted is None else f"{accepted + at:.3f}"
            numbers = (points.least[place], points.mean[place], points.most[place])
            yield _join_cells(
                (
                    points.task,
                    points.series,
                    unit,
                    f"{at:g}",
                    moment,
                    f"{points.every:g}",
                    *(f"{value:.9g}" for value in numbers),
                )
            )


def _join_cells(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
