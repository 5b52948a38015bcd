"""Formats the numbers of recommendations."""

from __future__ import annotations

from collections.abc import Iterable

from tony.advice.recommendation import Evidence, Interval, Measure, Saving
from tony.units import format_bytes, format_duration, format_size


def number(value: float) -> str:
    """Format a number with three significant digits: `0.25`, `12.5`, `1340`."""
    if value >= 100:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def amount(value: float, measure: Measure) -> str:
    """Format a number with its unit: `1.5g`, `3 m 05 s`, `42 %`, `1.2 cores`, `3`."""
    match measure:
        case Measure.BYTES:
            return format_size(round(value))
        case Measure.SECONDS:
            return format_duration(value)
        case Measure.SHARE:
            return f"{number(100 * value)} %"
        case Measure.CORES:
            return f"{number(value)} core{'' if value == 1 else 's'}"
        case Measure.TIMES:
            return f"{number(value)} times"
        case Measure.RATE:
            return f"{format_bytes(value)}/s"
    return number(value)


def format_evidence(evidence: Evidence) -> str:
    """Return `memory requested: 8g`."""
    return f"{evidence.what}: {amount(evidence.value, evidence.measure)}"


def between(interval: Interval, unit: str) -> str:
    """Return `3 to 4.5 GB-hours`, or `3 GB-hours` if both ends look the same."""
    least, most = number(interval.least), number(interval.most)
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
