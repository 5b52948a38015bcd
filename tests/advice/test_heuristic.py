"""Evidence and savings of recommendations as text."""

from __future__ import annotations

import pytest

from tests.facts import mentions
from tony.advice.heuristic import format_evidence, format_saving
from tony.advice.recommendation import Evidence, Interval, Saving
from tony.units import Unit, format_amount, format_count, format_number


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.1234, "0.123"), (2.0, "2"), (12.34, "12.3"), (1340.4, "1340"), (1e-7, "< 0.001")]
)
def test_numbers(value: float, text: str) -> None:
    assert text == format_number(value)


@pytest.mark.parametrize(
    ("value", "measure", "text"),
    [
        (1.5 * 1024**3, Unit.BYTES, "1.5 GiB"),
        (185.0, Unit.SECONDS, "3 m 05 s"),
        (0.425, Unit.SHARE, "42 %"),
        (1.0, Unit.CORES, "1 core"),
        (1.25, Unit.CORES, "1.25 cores"),
        (3.0, Unit.COUNT, "3"),
        (2.0, Unit.TIMES, "2 times"),
        (5e6, Unit.BYTES_PER_SECOND, "4.8 MiB/s"),
    ],
)
def test_amounts(value: float, measure: Unit, text: str) -> None:
    assert text == format_amount(value, measure)
    assert f"it: {text}" == format_evidence(Evidence("it", value, measure))


def test_savings() -> None:
    """Only what is known; one number where both ends read alike."""
    assert "" == format_saving(Saving())
    saving = Saving(gpu_hours=Interval(1.0, 2.5), gb_hours=Interval(3.0, 3.0), seconds=Interval(60.0, 120.0))
    assert mentions(format_saving(saving), "1 to 2.5 GPU-hours", "3 GB-hours", "1 m 00 s to 2 m 00 s")
    assert ("1 run", "2 runs") == (format_count(1, "run"), format_count(2, "run"))
