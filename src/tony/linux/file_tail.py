"""Reads the end of a file, such as a log."""

from __future__ import annotations

import os
from pathlib import Path


def read_tail(path: Path, most: int) -> bytes:
    """Return the last bytes of a file, at most `most`; more if it grows meanwhile.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most))
        return file.read()
