"""Distinguishes the files of Python and its libraries from those of the user."""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|/lib/pypy|^<frozen |(?:^|/)sitecustomize\.py$")


def is_library_file(path: str) -> bool:
    """Return True if a frame in this file is not of the user's code."""
    return _LIBRARY.search(path) is not None
