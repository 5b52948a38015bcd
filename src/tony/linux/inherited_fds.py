"""Closes open files that a fork inherits and does not need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection


def close_others(kept: Collection[int]) -> None:
    """Close all open files of this process except its standard streams and `kept`.

    As listed by the kernel: up to the limit (RLIMIT_NOFILE) there may be a thousand million descriptors.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # one was of the listing itself
                os.close(number)
