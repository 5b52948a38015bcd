"""Moves descriptors of the hooks out of the way of programs that rely on low numbers. Runs on every Python version."""

import fcntl
import os

_HIGH = 200


def move_up(low):  # type: (int) -> int
    """Return a copy of a descriptor with a high number, and close it; itself beyond the limit of open files."""
    try:
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (OSError, ValueError):
        return low
    os.close(low)
    return int(high)
