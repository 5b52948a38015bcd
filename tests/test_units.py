"""Tests of `tony.units`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.units import (
    MAX_DURATION,
    MAX_SIZE,
    format_duration,
    format_exact_duration,
    format_exact_size,
    format_size,
    parse_duration,
    parse_size,
)

GIB = 1024**3
MIB = 1024**2


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (512 * MIB, "512m"),
        (2 * GIB, "2g"),
        (GIB * 3 // 2, "1.5g"),
        (1024 * GIB, "1t"),
        (2 * GIB, "2GiB"),
        (2 * GIB, "2GB"),
        (2 * GIB, " 2 G "),
        (4096, "4k"),
        (4096, "4096b"),
        (0, "0m"),
        (1, "1.9b"),
        (MAX_SIZE, "1048576t"),
    ],
)
def test_a_size_is_read_in_powers_of_1024(expected: int, text: str) -> None:
    """Sizes are a number and a unit, in any case, with or without the B."""
    assert expected == parse_size(text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ('a size needs a unit. Write "4096m" (MiB) or "4096g" (GiB).', "4096"),
        ('a size needs a unit. Write "1.5m" (MiB) or "1.5g" (GiB).', " 1.5 "),
        ("a size cannot be negative.", "-1g"),
        ("a size cannot be negative.", "-1"),
        ('larger than any machine. The maximum is "1048576t".', "1048577t"),
        ('larger than any machine. The maximum is "1048576t".', "9999999999999999999t"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', ""),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "1,5g"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "1e3m"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "٣g"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "lots"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "1bib"),
        ('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".', "9" * 10_000),
    ],
)
def test_an_invalid_size_is_refused_with_the_fix(expected: str, text: str) -> None:
    """The message says what to write; a bare number shows the two likely meanings."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_size(text)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (0.5, "500ms"),
        (30.0, "30s"),
        (600.0, "10m"),
        (7200.0, "2h"),
        (86400.0, "1d"),
        (90.0, "1.5m"),
        (0.0, "0s"),
        (0.1, " 0.1 s "),
        (MAX_DURATION, "3650d"),
    ],
)
def test_a_duration_is_read_as_seconds(expected: float, text: str) -> None:
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ('a duration needs a unit. Write "15s" (seconds) or "15m" (minutes).', "15"),
        ("a duration cannot be negative.", "-5s"),
        ('longer than ten years. The maximum is "3650d".', "3651d"),
        ('longer than ten years. The maximum is "3650d".', "9999999999999999999d"),
        ('not a duration. Write a number with a unit: "30s", "10m", "2h".', "10M"),
        ('not a duration. Write a number with a unit: "30s", "10m", "2h".', "ten minutes"),
        ('not a duration. Write a number with a unit: "30s", "10m", "2h".', "inf"),
        ('not a duration. Write a number with a unit: "30s", "10m", "2h".', ""),
    ],
)
def test_an_invalid_duration_is_refused_with_the_fix(expected: str, text: str) -> None:
    """The message says what to write; a bare number shows the two likely meanings."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_duration(text)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("expected", "size"),
    [
        ("1g", GIB),
        ("1.5g", GIB * 3 // 2),
        ("768m", 768 * MIB),
        ("17b", 17),
        ("0b", 0),
        ("1.25k", 1280),
        ("1t", 1024 * GIB),
    ],
)
def test_an_exact_size_is_short(expected: str, size: int) -> None:
    """The text is one that a person would write."""
    assert expected == format_exact_size(size)


@given(st.integers(0, MAX_SIZE))
def test_an_exact_size_is_read_back_as_it_was(size: int) -> None:
    assert size == parse_size(format_exact_size(size))


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [("1h", 3600.0), ("15m", 900.0), ("90s", 90.0), ("0s", 0.0), ("1.5s", 1.5), ("250ms", 0.25), ("2d", 172800.0)],
)
def test_an_exact_duration_is_short(expected: str, seconds: float) -> None:
    """The text is one that a person would write."""
    assert expected == format_exact_duration(seconds)


@given(st.integers(0, int(MAX_DURATION) * 1000))
def test_an_exact_duration_is_read_back_as_it_was(milliseconds: int) -> None:
    """Down to a millisecond nothing is lost."""
    assert milliseconds / 1000 == parse_duration(format_exact_duration(milliseconds / 1000))


@pytest.mark.parametrize(
    ("expected", "size"),
    [
        ("17 bytes", 17),
        ("0 bytes", 0),
        ("1k", 1024),
        ("640m", 640 * MIB),
        ("1.5g", GIB * 3 // 2),
        ("1g", GIB),
        ("1g", GIB - 1),
        ("1000m", 1000 * MIB),
        ("10000g", 10000 * GIB),
        ("1.2g", GIB * 6 // 5),
        ("1229m", 1229 * MIB),
    ],
)
def test_a_size_is_shown_rounded(expected: str, size: int) -> None:
    """What is shown is short, and never 1024 of a unit."""
    assert expected == format_size(size)


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("0 s", 0.0),
        ("1 ms", 0.0001),
        ("40 ms", 0.04),
        ("0.4 s", 0.4),
        ("12 s", 12.3),
        ("10 s", 9.96),
        ("1 m 00 s", 59.6),
        ("3 m 05 s", 185.0),
        ("1 h 00 m", 3599.7),
        ("2 h 10 m", 7800.0),
        ("3 d 4 h", 3 * 86400 + 4 * 3600.0),
        ("-3 m 05 s", -185.0),
        ("forever", float("inf")),
        ("unknown", float("nan")),
    ],
)
def test_a_duration_is_shown_as_people_say_it(expected: str, seconds: float) -> None:
    """Two units at most; what no clock gives is shown all the same."""
    assert expected == format_duration(seconds)
