"""Sizes and durations: converts text such as `2g` or `10m` to numbers, and back."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

#: Powers of 1024, smallest first.
_SIZE_UNITS = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
#: Milliseconds in each unit, smallest first.
_DURATION_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,19})?)\s*(?:(b)|([kmgt])(?:i?b)?)", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d{1,19}(?:\.\d{1,19})?)\s*(ms|s|m|h|d)", re.ASCII)
_BARE = re.compile(r"\d{1,19}(?:\.\d{1,19})?", re.ASCII)

#: 1024 PiB. More is a typing error on any machine, and it still fits the signed 64 bits that other programs use.
MAX_SIZE = 1024**6
#: Ten years. More is a typing error, and timers elsewhere overflow at about 292 years.
MAX_DURATION = 3650 * 86400.0
#: Seconds, ten thousand years: longer durations are not measurements.
_FOREVER_SECONDS = 3_650_000 * 86400.0


def parse_size(text: str) -> int:
    """Parse `512m`, `2g`, `1.5g`, `1t`, `2GiB`, `4096b` as bytes (powers of 1024; fractions of a byte are dropped).

    Raises:
        ValueError: with a sentence that says what to write instead.
    """
    cleaned = text.strip()
    match = _SIZE.fullmatch(cleaned)
    if match:
        size = _number(match[1]) * _SIZE_UNITS[(match[2] or match[3]).lower()]
        if size > MAX_SIZE:
            raise ValueError('larger than any machine. The maximum is "1048576t".')
        return int(size)
    if _BARE.fullmatch(cleaned):
        raise ValueError(f'a size needs a unit. Write "{cleaned}m" (MiB) or "{cleaned}g" (GiB).')
    if cleaned.startswith("-") and _BARE.match(cleaned, 1):
        raise ValueError("a size cannot be negative.")
    raise ValueError('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".')


def parse_duration(text: str) -> float:
    """Parse `500ms`, `30s`, `10m`, `2h`, `1d` as seconds.

    Raises:
        ValueError: with a sentence that says what to write instead.
    """
    cleaned = text.strip()
    match = _DURATION.fullmatch(cleaned)
    if match:
        seconds = float(_number(match[1]) * _DURATION_UNITS[match[2]] / 1000)
        if seconds > MAX_DURATION:
            raise ValueError('longer than ten years. The maximum is "3650d".')
        return seconds
    if _BARE.fullmatch(cleaned):
        raise ValueError(f'a duration needs a unit. Write "{cleaned}s" (seconds) or "{cleaned}m" (minutes).')
    if cleaned.startswith("-") and _BARE.match(cleaned, 1):
        raise ValueError("a duration cannot be negative.")
    raise ValueError('not a duration. Write a number with a unit: "30s", "10m", "2h".')


def exact_size(size: int) -> str:
    """Return short text that `parse_size` reads as exactly this many bytes: `1g`, `1.5g`, `700m`, `17b`."""
    for unit in ("t", "g", "m", "k"):
        factor = _SIZE_UNITS[unit]
        if size >= factor and size * 4 % factor == 0:  # quarters are exact in decimals
            return f"{_decimal(size) / factor:f}{unit}"
    return f"{size}b"


def exact_duration(seconds: float) -> str:
    """Return text that `parse_duration` reads as this many seconds: `2h`, `90s`, `1.5s`, `250ms`, `0s`."""
    if seconds and seconds % 1 == 0:
        for unit in ("d", "h", "m"):
            length = _DURATION_UNITS[unit] // 1000
            if seconds % length == 0:
                return f"{int(seconds) // length}{unit}"
    if 0 < seconds < 1 and (seconds * 1000) % 1 == 0:
        return f"{int(seconds * 1000)}ms"
    return f"{_decimal(repr(seconds)).normalize():f}s"


def _number(text: str) -> int | Decimal:
    return _decimal(text) if "." in text else int(text)


def _decimal(number: str | int) -> Decimal:
    from decimal import Decimal  # importing it takes 3 ms, and most numbers are whole

    return Decimal(number)


def format_size(size: int) -> str:
    """Return a number of bytes as in job files, rounded: `1g`, `1.5g`, `640m`, `17 bytes`."""
    for unit in ("t", "g", "m", "k"):
        value = size / _SIZE_UNITS[unit]
        if value >= 1 or round(value, 3) == 1:  # 1023.99m would be rounded to "1024m"
            return f"{_trim(value)}{unit}"
    return f"{size} bytes"


def format_bytes(size: float) -> str:
    """Return a measured number of bytes: `1.5 GiB`, `17 bytes`; `format_size` is for sizes of job files."""
    text = format_size(round(size))
    return text if text.endswith("bytes") else f"{text[:-1]} {text[-1].upper()}iB"


def format_duration(seconds: float) -> str:
    """Return a duration for people: `40 ms`, `0.4 s`, `12 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`."""
    if not math.isfinite(seconds) or abs(seconds) > _FOREVER_SECONDS:
        return "forever" if seconds > 0 else "unknown"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{_trim(seconds)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def _trim(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
