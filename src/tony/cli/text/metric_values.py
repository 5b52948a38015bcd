"""Values of metrics and progress in few columns: sparklines, numbers with their units. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tony.control_characters import escape
from tony.model.progress import JobProgress
from tony.units import Unit, format_amount, format_duration

_BARS = "▁▂▃▄▅▆▇█"
_DIGITS = "01234567"
#: Shown for an unknown value.
NOTHING = "-"


def format_progress(progress: JobProgress) -> str:
    """Return the progress of a job, with the stalled task or the time left: `20 % done, 5 m left`."""
    parts = []
    if progress.share is not None:
        parts.append(f"{format_measure(progress.share, Unit.SHARE)} done")
    if progress.waits_for:
        parts.append(
            f"no step for {format_duration(progress.stalled or 0.0)}, waiting for {escape(progress.waits_for)}"
        )
    elif progress.stalled is not None:
        parts.append(f"{escape(progress.task)} stalled for {format_duration(progress.stalled)}")
    elif progress.overdue is not None:
        parts.append(f"no report of {escape(progress.task)} for {format_duration(progress.overdue)}")
    elif progress.left is not None:
        parts.append(f"{format_duration(progress.left)} left")
    return ", ".join(parts)


def format_steps(step: float | None, total: float | None) -> str:
    """Return the last reported step, with the number of steps if that is known: `120/400`."""
    steps = format_measure(step, Unit.COUNT)
    return f"{steps}/{format_measure(total, Unit.COUNT)}" if step is not None and total else steps


def draw_sparkline(
    values: Sequence[float | None], columns: int, *, unicode: bool = True, from_zero: bool = False
) -> str:
    """Draw values in time order as one line of bars; `_` for a missing value, digits without Unicode.

    Args:
        from_zero: the lowest bar is 0 instead of the minimum, unless a value is negative.
    """
    bins = _fill_bins(values, columns)
    known = [value for value in bins if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    if from_zero:
        low = min(0.0, low)
    signs = _BARS if unicode else _DIGITS
    return "".join("_" if value is None else signs[_find_level(value, low, high)] for value in bins)


def _find_level(value: float, low: float, high: float) -> int:
    if high <= low:
        return 0
    share = value / (high - low) - low / (high - low)  # subtracting first might overflow
    return min(len(_BARS) - 1, max(0, int(share * len(_BARS)))) if math.isfinite(share) else 0


def _fill_bins(values: Sequence[float | None], columns: int) -> list[float | None]:
    """Return at most `columns` values, each the mean of neighbouring ones."""
    if columns <= 0:
        return []
    finite = [value if value is not None and math.isfinite(value) else None for value in values]
    if len(finite) <= columns:
        return finite
    bins: list[float | None] = []
    for number in range(columns):
        first = number * len(finite) // columns
        present = [value for value in finite[first : (number + 1) * len(finite) // columns] if value is not None]
        bins.append(math.fsum(value / len(present) for value in present) if present else None)
    return bins


def format_measure(value: float | None, unit: Unit) -> str:
    """Format a metric with its unit: `1.5 GiB`, `45 %`, `12.5`."""
    return NOTHING if value is None or not math.isfinite(value) else format_amount(value, unit, is_compact=True)
