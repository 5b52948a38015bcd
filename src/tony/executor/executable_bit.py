"""Lets the files that a command line runs be executed, if they came here without their execute bits.

Zips that were not made on Unix, files out of HDFS and out of many a checkout have lost it; the original does likewise.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

#: The first word of each command in a line: at its beginning, behind a separator, in backticks or `$(...)`.
_FIRST_WORDS = re.compile(r"(?:^|[`;&|(\n])\s*([^\s`;&|()<>\"']+)")


def make_executable(command: str, folder: str) -> None:
    """Give the files that a command line runs the execute bits that go with their read bits.

    Only a path to a file below the working directory, which belongs to the program alone. What cannot be done is left:
    the shell will say what is wrong.

    Args:
        command: as bash gets it.
        folder: the working directory.
    """
    for word in dict.fromkeys(_FIRST_WORDS.findall(command)):
        if "/" in word:  # bash looks for others in PATH
            _give_bits(word, folder)


def _give_bits(word: str, folder: str) -> None:
    with suppress(OSError, ValueError):
        root = os.path.realpath(folder)
        place = os.path.realpath(os.path.join(root, word))
        mode = os.stat(place).st_mode
        if place.startswith(f"{root}/") and stat.S_ISREG(mode) and not os.access(place, os.X_OK):
            os.chmod(place, stat.S_IMODE(mode) | (mode & 0o444) >> 2)
