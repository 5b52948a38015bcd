"""Reads and writes small files of the kernel, in /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

#: Digits of the largest 64-bit number.
_DIGITS = 20


def read_text(path: str | Path) -> str:
    """Return the content of a kernel file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_words(file: str) -> dict[str, str]:
    """Return the lines of a kernel file by their first word; empty if the file does not exist."""
    return dict(line.partition(" ")[::2] for line in read_text(file).splitlines())


def read_number(file: str | Path) -> int | None:
    """Return the number in a kernel file; None if there is none."""
    return parse_number(read_text(file).strip())


def try_write(path: str | Path, text: str) -> bool:
    """Write to a kernel file; return False if the kernel refuses."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def parse_number(text: str) -> int | None:
    """Return the number; None for anything but 1 to 20 ASCII digits (`str.isdigit` accepts `²`)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
