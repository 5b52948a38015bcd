"""Numbers in files of the kernel's and of strangers."""

from __future__ import annotations

#: Digits of the largest number of 64 bits.
_DIGITS = 20


def whole(text: str) -> int | None:
    """The number that text is; None for anything but 1 to 20 of the digits 0 to 9. `str.isdigit` takes `²` for one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
