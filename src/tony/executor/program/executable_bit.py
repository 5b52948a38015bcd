"""Sets the execute bits of files that a command line runs, where they were lost in transfer.

Zips not made on Unix, files from HDFS and many checkouts lack them; LinkedIn TonY does the same.
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

    Only paths below the working directory, which belongs to this task alone. Failures are ignored: the shell will
    report the problem.

    Args:
        command: as passed to bash.
        folder: the working directory.
    """
    for word in dict.fromkeys(_FIRST_WORDS.findall(command)):
        if "/" in word:  # bash looks up others on PATH
            _set_bits(word, folder)


def _set_bits(word: str, folder: str) -> None:
    with suppress(OSError, ValueError):
        root = os.path.realpath(folder)
        place = os.path.realpath(os.path.join(root, word))
        mode = os.stat(place).st_mode
        if place.startswith(f"{root}/") and stat.S_ISREG(mode) and not os.access(place, os.X_OK):
            os.chmod(place, stat.S_IMODE(mode) | (mode & 0o444) >> 2)
