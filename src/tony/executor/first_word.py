"""Lets what a command begins with be run, if it came here without its execute bit.

Zips that were not made on Unix, files out of HDFS and out of many a checkout have lost it; the original does likewise.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress


def make_executable(command: str, folder: str) -> None:
    """Gives the file that a command line names first the execute bits that go with its read bits.

    Only a path to a file below the working directory, which belongs to the program alone. What cannot be done is left:
    the shell will say what is wrong.

    Args:
        command: as bash gets it.
        folder: the working directory.
    """
    word = (command.split(maxsplit=1) or [""])[0]
    if "/" not in word:
        return  # bash looks for it in PATH
    with suppress(OSError, ValueError):
        root = os.path.realpath(folder)
        place = os.path.realpath(os.path.join(root, word))
        mode = os.stat(place).st_mode
        if place.startswith(f"{root}/") and stat.S_ISREG(mode) and not os.access(place, os.X_OK):
            os.chmod(place, stat.S_IMODE(mode) | (mode & 0o444) >> 2)
