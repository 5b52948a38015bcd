"""Units: parses sizes and durations (`2g`, `10m`), and formats quantities, the same way on every surface."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import Enum
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
#: From here on numbers are rounded to whole ones, and have an exponent.
_WHOLE_FROM = 1e4
_EXPONENT_FROM = 1e15


class Unit(Enum):
    """The unit of a quantity."""

    CORES = "cores"
    BYTES = "B"
    BYTES_PER_SECOND = "B/s"
    SECONDS = "s"
    COUNT = "count"
    PER_SECOND = "1/s"
    TIMES = "times"
    SHARE = "share"  #: 0 to 1
    WATT = "W"
    HERTZ = "Hz"
    CELSIUS = "°C"
    NONE = ""


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


def format_exact_size(size: int) -> str:
    """Return short text that `parse_size` reads as exactly this many bytes: `1g`, `1.5g`, `700m`, `17b`."""
    for unit in ("t", "g", "m", "k"):
        factor = _SIZE_UNITS[unit]
        if size >= factor and size * 4 % factor == 0:  # quarters are exact in decimals
            return f"{_decimal(size) / factor:f}{unit}"
    return f"{size}b"


def format_exact_duration(seconds: float) -> str:
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
    from decimal import Decimal  # late: 3 ms, and most numbers are whole

    return Decimal(number)


def format_size(size: int) -> str:
    """Return a number of bytes as in job files: `1g`, `1.5g`, `10000g`; rounded if it is no multiple of `1m`."""
    for unit, smaller in (("t", "g"), ("g", "m")):
        if size > _SIZE_UNITS[unit] and size % _SIZE_UNITS[smaller] == 0 and 10 * size % _SIZE_UNITS[unit]:
            return f"{size // _SIZE_UNITS[smaller]}{smaller}"
    return _round_size(size)


def format_bytes(size: float) -> str:
    """Return a measured number of bytes: `1.5 GiB`, `17 bytes`; `format_size` is for sizes of job files."""
    text = _round_size(round(size))
    return text if text.endswith("bytes") else f"{text[:-1]} {text[-1].upper()}iB"


def _round_size(size: int) -> str:
    for unit in ("t", "g", "m", "k"):
        value = size / _SIZE_UNITS[unit]
        if value >= 1 or round(value, 3) == 1:  # 1023.99m would be rounded to "1024m"
            return f"{_trim(value)}{unit}"
    return f"{size} bytes"


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


def format_share(value: float) -> str:
    """Return a fraction as a percentage: `45 %`, `1.2 %`."""
    if 0 < value < 0.0005:
        return "< 0.1 %"
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


def format_number(value: float, whole: Callable[[int], str] = str) -> str:
    """Return a number with three significant digits: `0.25`, `12.5`, `1340`.

    Args:
        whole: formats a whole number.
    """
    if 0 < value < 0.001:
        return "< 0.001"
    return whole(round(value)) if abs(value) >= 100 else f"{value:.3g}"


def format_amount(value: float, unit: Unit, *, whole: Callable[[int], str] = str, is_compact: bool = False) -> str:
    """Return a finite number with its unit: `1.5 GiB`, `3 m 05 s`, `42 %`, `1.25 cores`, `3`.

    Args:
        whole: formats a large whole number.
        is_compact: for columns whose heading names cores, in ASCII.
    """
    match unit:
        case Unit.BYTES:
            return format_bytes(value)
        case Unit.BYTES_PER_SECOND:
            return f"{format_bytes(value)}/s"
        case Unit.SECONDS:
            return format_duration(value)
        case Unit.SHARE:
            return format_share(value)
        case Unit.HERTZ:
            return f"{value / 1e9:.2f} GHz" if value >= 1e9 else f"{value / 1e6:.0f} MHz"
        case Unit.CELSIUS:
            return f"{value:.0f} {'C' if is_compact else '°C'}"
        case Unit.WATT:
            return f"{value:.0f} W"
        case Unit.PER_SECOND:
            return f"{value:.3g}/s"
        case Unit.TIMES:
            return f"{format_number(value)} times"
        case Unit.COUNT if abs(value) < _WHOLE_FROM:
            return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
    text = whole(round(value)) if _WHOLE_FROM <= abs(value) < _EXPONENT_FROM else f"{value:.4g}"
    if unit is Unit.CORES and not is_compact:
        return f"{text} core{'' if value == 1 else 's'}"
    return text


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `3 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_first(texts: Sequence[str], most: int) -> str:
    """Join texts with commas; of more than `most` the first ones: `a, b and 2 more`."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _trim(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
