"""Numbers that were measured, in words."""

from __future__ import annotations

import pytest

from tony.cli.text.metric_values import format_measure
from tony.units import Unit
from tony.web.page_text import format_metric


@pytest.mark.parametrize(
    ("value", "unit", "terminal", "page"),
    [
        (1.5 * 2**30, Unit.BYTES, "1.5 GiB", "1.5 GiB"),
        (2.0**20, Unit.BYTES_PER_SECOND, "1 MiB/s", "1 MiB/s"),
        (0.0001, Unit.SHARE, "< 0.1 %", "< 0.1 %"),
        (0.05, Unit.SHARE, "5.0 %", "5.0 %"),
        (0.5, Unit.SHARE, "50 %", "50 %"),
        (1.25, Unit.CORES, "1.25", "1.25 cores"),
        (61.4, Unit.CELSIUS, "61 C", "61 °C"),
        (412.3, Unit.WATT, "412 W", "412 W"),
        (5.0e8, Unit.HERTZ, "500 MHz", "500 MHz"),
        (12.34, Unit.PER_SECOND, "12.3/s", "12.3/s"),
        (2.25, Unit.COUNT, "2.2", "2.2"),
        (1234567.0, Unit.COUNT, "1234567", "1\u202f234\u202f567"),
        (1234567.8, Unit.NONE, "1234568", "1\u202f234\u202f568"),
        (1e300, Unit.NONE, "1e+300", "1e+300"),
        (1e300, Unit.COUNT, "1e+300", "1e+300"),
        (float("nan"), Unit.NONE, "-", "–"),
        (None, Unit.BYTES, "-", "–"),
    ],
)
def test_terminals_and_pages_say_the_same(value: float | None, unit: Unit, terminal: str, page: str) -> None:
    """But for how they write thousands, degrees and what is not known."""
    assert (terminal, page) == (format_measure(value, unit), format_metric(value, unit))
