"""How long a gang waits for its missing containers, and how long it then lets others go first.

Jobs that came together must not give way together: what looks like chance is derived from the job's id, so that a
replay computes the same.
"""

from __future__ import annotations

import zlib

#: Seconds of the first pause, in the middle; each further one is twice as long.
FIRST_PAUSE = 5.0
#: Seconds; no pause is longer, in the middle.
LONGEST_PAUSE = 60.0


def gang_timeout(base: float, done: int, seed: str) -> float:
    """Seconds without a new grant until the gang gives way: `base`, and up to a quarter more."""
    return base * (1 + _chance(f"{seed}/patience/{done}") / 4)


def gang_pause(times: int, seed: str) -> float:
    """Seconds to ask for nothing after giving way for the `times`-th time in a row: they grow, and are half as long to
    half as long again."""
    middle = min(FIRST_PAUSE * 2.0 ** min(times - 1, 30), LONGEST_PAUSE)
    return middle * (0.5 + _chance(f"{seed}/pause/{times}"))


def _chance(text: str) -> float:
    return zlib.crc32(text.encode()) / 2**32
