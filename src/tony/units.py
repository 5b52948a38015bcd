"""Sizes and durations: the only place where text such as `2g` or `10m` becomes a number."""

from __future__ import annotations

import re
from decimal import Decimal

_SIZE_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_DURATION_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt])(?:i?b)?", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)", re.ASCII)
_BARE = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def parse_size(text: str) -> int:
    """Reads `512m`, `2g`, `1.5g`, `1t`, `2GiB` as bytes (powers of 1024).

    Raises:
        ValueError: with a sentence that says what to write instead.
    """
    cleaned = text.strip()
    match = _SIZE.fullmatch(cleaned)
    if match:
        return int(Decimal(match[1]) * _SIZE_UNITS[match[2].lower()])
    if _BARE.fullmatch(cleaned):
        raise ValueError(f'a size needs a unit. Write "{cleaned}m" (MiB) or "{cleaned}g" (GiB).')
    raise ValueError('not a size. Write a number with a unit: "512m", "2g", "1.5g", "1t".')


def parse_duration(text: str) -> float:
    """Reads `500ms`, `30s`, `10m`, `2h`, `1d` as seconds.

    Raises:
        ValueError: with a sentence that says what to write instead.
    """
    cleaned = text.strip()
    match = _DURATION.fullmatch(cleaned)
    if match:
        return float(Decimal(match[1]) * _DURATION_UNITS[match[2]])
    if _BARE.fullmatch(cleaned):
        raise ValueError(f'a duration needs a unit. Write "{cleaned}s" (seconds) or "{cleaned}m" (minutes).')
    raise ValueError('not a duration. Write a number with a unit: "30s", "10m", "2h".')


def format_size(size: int) -> str:
    """Shortest exact-looking text for a number of bytes: `1g`, `1.5g`, `640m`, `17 bytes`."""
    for unit in ("t", "g", "m", "k"):
        factor = _SIZE_UNITS[unit]
        if size >= factor:
            return f"{_trim(size / factor)}{unit}"
    return f"{size} bytes"


def format_duration(seconds: float) -> str:
    """Text for a duration as people say it: `0.4 s`, `12 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`."""
    if seconds < 10:
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
