"""Parse numbers, times, sizes and lists of a Hadoop configuration, by Hadoop's rules; the error of a wrong one.

The rules differ from those of tony's own settings: numbers usually have no unit, and `k` is 1024. All functions raise
ValueError with a sentence that names the expected form.
"""

from __future__ import annotations

import re

from tony.errors import UserError

_WHOLE = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", re.ASCII)
_DECIMAL = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
#: `Configuration.ParsedTimeDuration`, in seconds.
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: `StringUtils.TraditionalBinaryPrefix`.
_POWERS = "kmgtpe"
_LONG = 2**63


def parse_bool(text: str) -> bool | None:
    """Return True or False; None for anything else, for which Hadoop uses the default."""
    return {"true": True, "false": False}.get(text.strip().lower())


def parse_int(text: str) -> int:
    """Return a whole number, decimal or hexadecimal."""
    cleaned = text.strip()
    if not _WHOLE.fullmatch(cleaned):
        raise ValueError("a whole number is wanted.")
    number = int(cleaned, 16 if "x" in cleaned.lower() else 10)
    if not -_LONG <= number < _LONG:
        raise ValueError("a number of at most 64 bits is wanted.")
    return number


def parse_seconds(text: str, unit: str) -> float:
    """Return a time: `30`, `30s`, `500ms`.

    Args:
        unit: of a number without one: `ms`, `s`, `m`...
    """
    cleaned = text.strip().lower()
    for suffix in _SECONDS:
        if cleaned.endswith(suffix):
            cleaned, unit = cleaned[: -len(suffix)], suffix
            break
    if not _DECIMAL.fullmatch(cleaned):
        raise ValueError("a time is wanted: a whole number, alone or with one of ns us ms s m h d.")
    return int(cleaned) * _SECONDS[unit]


def parse_size(text: str) -> int:
    """Return a number of bytes: `134217728`, `128m`."""
    cleaned = text.strip().lower()
    power = _POWERS.find(cleaned[-1]) + 1 if cleaned else 0
    digits = cleaned[:-1] if power else cleaned
    if not _DECIMAL.fullmatch(digits):
        raise ValueError("a size is wanted: a whole number, alone or with one of k m g t p e.")
    size = int(digits) << (10 * power)
    if not -_LONG <= size < _LONG:
        raise ValueError("a size of at most 64 bits is wanted.")
    return size


def parse_list(text: str) -> tuple[str, ...]:
    """Return the parts between commas or line ends, trimmed, without empty ones."""
    return tuple(part.strip() for part in re.split(r"[,\n]", text) if part.strip())


def find_unit(key: str) -> str:
    """Return the unit that a key's name tells: `...retry-interval.ms` has milliseconds; seconds if it tells none."""
    return "ms" if key.endswith((".ms", "-ms", ".millis", "-millis", "msec")) else "s"


class ConfigurationError(UserError):
    """A file of Hadoop's configuration that cannot be read, or a value in it that means nothing.

    Attributes:
        key: the key with the value, or empty if it is the file.
        source: `file:line`, or what else the value comes from.
    """

    def __init__(self, message: str, *, key: str = "", source: str = "") -> None:
        self.key = key
        self.source = source
        super().__init__(message)
