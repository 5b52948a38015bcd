"""Formats values on one line, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from tony.config.table.layers import Canonical, Garbled, Written, format_key, quote
from tony.config.table.settings_table import Kind, Setting
from tony.units import format_exact_duration, format_exact_size

#: Longer values are cut in messages.
_MAX_LENGTH = 80


def format_as_toml(value: Any) -> str:
    """Return a value as in a job file, for a message: one line, cut if long."""
    text = _format_plain(value, 0)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def format_name(text: str) -> str:
    """Return a name for a message: without quotes, one line, cut if long."""
    short = text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
    return short if short.isprintable() else quote(short)[1:-1].replace('\\"', '"')


def _format_plain(value: Any, depth: int) -> str:
    if isinstance(value, Canonical):
        return '"off"' if value.value is None else _format_plain(value.value, depth)
    if isinstance(value, Written | Garbled):
        return quote(value.text)[1:-1].replace('\\"', '"')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > 10**_MAX_LENGTH:
        return f"a number of {value.bit_length()} bits"  # too many digits to print
    if isinstance(value, str):
        return quote(value[: 2 * _MAX_LENGTH])
    if isinstance(value, list | tuple):
        inner = "..." if depth else ", ".join(_format_plain(item, depth + 1) for item in value[:_MAX_LENGTH])
        return f"[{inner}]"
    if isinstance(value, Mapping):
        return "{...}" if value else "{}"
    if isinstance(value, Enum):
        return quote(str(value.value))
    return "nothing" if value is None else quote(str(value))[1:-1]


def format_canonical(setting: Setting, value: object) -> str:
    """Return a canonical value as in a job file: `"1g"`, `"15s"`, `2`, `["a", "b"]`; empty for None."""
    if value is None:
        return '"off"' if setting.kind in (Kind.TIMEOUT, Kind.WAIT) else ""
    if isinstance(value, Enum):
        return quote(str(value.value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if setting.kind is Kind.SIZE and isinstance(value, int):
        return quote(format_exact_size(value))
    if setting.kind in (Kind.DURATION, Kind.TIMEOUT, Kind.WAIT) and isinstance(value, int | float):
        return quote(format_exact_duration(value))
    if setting.kind is Kind.PORTS and isinstance(value, tuple):
        return quote(f"{value[0]}-{value[1]}")
    if isinstance(value, Mapping):
        inner = ", ".join(f"{format_key((name,))} = {format_canonical(setting, item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(format_canonical(setting, item) for item in value)}]"
    return quote(value) if isinstance(value, str) else str(value)
