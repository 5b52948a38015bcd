"""Waits of a gang for missing containers, and its pauses in favour of other jobs.

Jobs submitted together must not release their containers together. The jitter is derived from the job's id, so that
a replay computes the same.
"""

from __future__ import annotations

import zlib

#: Mean seconds of the first pause; each further one is twice as long.
FIRST_PAUSE = 5.0
#: Upper bound of the mean, in seconds.
LONGEST_PAUSE = 60.0


def compute_gang_timeout(base: float, done: int, seed: str) -> float:
    """Return the seconds without a new grant until the gang releases its containers: `base` to 1.25 `base`."""
    return base * (1 + _compute_jitter(f"{seed}/patience/{done}") / 4)


def compute_gang_pause(times: int, seed: str) -> float:
    """Return the seconds to request nothing after the `times`-th release in a row: exponential, jitter of ±50 %."""
    middle = min(FIRST_PAUSE * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)
    return middle * (0.5 + _compute_jitter(f"{seed}/pause/{times}"))


def _compute_jitter(text: str) -> float:
    return zlib.crc32(text.encode()) / 2**32
