"""Parses values of LinkedIn TonY settings: bare MiB, milliseconds, comma-separated lists.

Each function returns the default for a key that is not set, and reports an invalid value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from tony.config.legacy.draft_job import DraftJob, LegacyOrigin, origin_of
from tony.config.legacy.settings_sources import LegacyAssignment, LegacyValue
from tony.config.table.value_format import format_as_toml
from tony.hadoop.configuration.value_parsing import parse_bool, parse_int
from tony.units import format_exact_duration, format_exact_size, parse_size

_T = TypeVar("_T")
_BARE = re.compile(r"\d{1,15}", re.ASCII)
#: A comma before another variable.
_NEXT_VARIABLE = re.compile(r",(?=\s*[A-Za-z_][A-Za-z0-9_]*=)", re.ASCII)


def parse_integer(draft: DraftJob, key: str, default: int) -> int:
    """Return a whole number."""
    return _read(draft, key, default, parse_int)


def parse_legacy_size(text: str) -> int:
    """Return the bytes of `2g`, `512m` or a bare number of MiB.

    Raises:
        ValueError: it is not a size.
    """
    cleaned = text.strip()
    if _BARE.fullmatch(cleaned):
        cleaned += "m"
    try:
        return parse_size(cleaned)
    except ValueError as error:
        raise ValueError(f"{error} A bare number is MiB.") from None


def format_size(draft: DraftJob, key: str) -> str | None:
    """Return a size as in a job file; None if it is not set or invalid."""
    return _read(draft, key, None, lambda text: format_exact_size(parse_legacy_size(text)))


def format_duration(draft: DraftJob, key: str, unit: float) -> str | None:
    """Return a duration as in a job file; None if it is off (0 or less), not set, or invalid.

    Args:
        unit: seconds per unit of the number.
    """
    seconds = parse_duration(draft, key, unit)
    return None if seconds is None else format_exact_duration(seconds)


def parse_duration(draft: DraftJob, key: str, unit: float) -> float | None:
    """Return seconds; None if it is off (0 or less), not set, or invalid."""
    number = parse_integer(draft, key, 0)
    return number * unit if number > 0 else None


def parse_truth(draft: DraftJob, key: str) -> bool:
    """Return true or false; for any other value false, as in LinkedIn TonY, with a note."""
    value = draft.settings.get(key)
    if value is None:
        return False
    found = parse_bool(value.text)
    if found is None:
        text = format_as_toml(value.text)
        draft.note(value, f"{text} is neither true nor false, and is treated as false, as in LinkedIn TonY.")
    return bool(found)


def parse_text(draft: DraftJob, key: str) -> str | None:
    """Return text; None if it is not set or empty."""
    value = draft.settings.get(key)
    return value.text if value and value.text else None


def parse_words(draft: DraftJob, key: str, default: str = "") -> list[str]:
    """Return the items of a list, trimmed; empty ones are skipped."""
    value = draft.settings.get(key)
    return [part.strip() for part in (default if value is None else value.text).split(",") if part.strip()]


def parse_items(draft: DraftJob, key: str) -> list[tuple[str, LegacyOrigin]]:
    """Return the items of a list, each with its origin."""
    value = draft.settings.get(key)
    return [] if value is None else [(item, origin_of(part, key)) for part, item in _items(value)]


def parse_variables(draft: DraftJob, key: str) -> dict[str, tuple[str, LegacyOrigin]]:
    """Parse `A=1,B` to name -> value and origin; a name without `=` has an empty value. Later ones win."""
    found: dict[str, tuple[str, LegacyOrigin]] = {}
    value = draft.settings.get(key)
    for part in value.parts if value else ():
        for item in _NEXT_VARIABLE.split(part.text) if part.whole else part.text.split(","):
            name, _, content = item.partition("=")
            if name.strip():
                found[name.strip()] = content.strip(), origin_of(part, key)
    return found


def _items(value: LegacyValue) -> list[tuple[LegacyAssignment, str]]:
    return [(part, item.strip()) for part in value.parts for item in part.text.split(",") if item.strip()]


def _read(draft: DraftJob, key: str, default: _T, parse: Callable[[str], _T]) -> _T:
    value = draft.settings.get(key)
    if value is None or not value.text:
        return default
    try:
        return parse(value.text)
    except ValueError as error:
        draft.add_error(value, str(error))
        return default
