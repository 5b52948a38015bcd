"""Open files that a fork inherits and has no use for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection


def close_others(kept: Collection[int]) -> None:
    """Closes all of this process's open files but its standard streams and `kept`.

    One by one as the kernel lists them: up to the limit (RLIMIT_NOFILE) there may be a thousand million numbers.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the listing itself was one of them
                os.close(number)
