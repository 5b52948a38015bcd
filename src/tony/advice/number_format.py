"""Formats the numbers of recommendations."""

from __future__ import annotations

from collections.abc import Iterable

from tony.advice.recommendation import Evidence, Interval, Saving
from tony.units import format_amount, format_duration, format_number


def format_evidence(evidence: Evidence) -> str:
    """Return `memory requested: 8g`."""
    return f"{evidence.what}: {format_amount(evidence.value, evidence.measure)}"


def between(interval: Interval, unit: str) -> str:
    """Return `3 to 4.5 GB-hours`, or `3 GB-hours` if both ends look the same."""
    least, most = format_number(interval.least), format_number(interval.most)
    return f"{least if least == most else f'{least} to {most}'} {unit}"


def saved(saving: Saving) -> str:
    """Return the saving per run; empty if unknown."""
    return ", ".join(_parts(saving))


def _parts(saving: Saving) -> Iterable[str]:
    for interval, unit in (
        (saving.gpu_hours, "GPU-hours"),
        (saving.gb_hours, "GB-hours"),
        (saving.core_hours, "core-hours"),
    ):
        if interval:
            yield between(interval, unit)
    if saving.seconds:
        least, most = (format_duration(each) for each in (saving.seconds.least, saving.seconds.most))
        yield least if least == most else f"{least} to {most}"


def count(of: int, noun: str) -> str:
    """Return `1 run`, `3 runs`."""
    return f"{of} {noun}{'' if of == 1 else 's'}"
