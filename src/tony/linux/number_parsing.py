"""Parses numbers in files of the kernel and of untrusted users."""

from __future__ import annotations

#: Digits of the largest 64-bit number.
_DIGITS = 20


def whole(text: str) -> int | None:
    """Return the number; None for anything but 1 to 20 ASCII digits (`str.isdigit` accepts `²`)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
