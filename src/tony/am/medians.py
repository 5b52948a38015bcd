"""The median of steps and pauses. Pure."""

from __future__ import annotations

from collections.abc import Collection


def find_median(values: Collection[float]) -> float:
    """Return the median of at least one value."""
    ordered = sorted(values)
    return 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])
