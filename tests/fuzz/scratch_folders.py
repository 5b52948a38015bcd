"""Folders for targets that read files: one for each process, empty at each call."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


def scratch(name: str) -> Path:
    folder = _base() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@cache
def _base() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tony-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
