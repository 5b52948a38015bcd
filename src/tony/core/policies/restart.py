"""Whether a failed session is followed by another one."""

from __future__ import annotations

import zlib

from tony.core.state import State
from tony.dataclass import dataclass

#: Somebody else took a reserved port: not the job's fault, so not charged, but not for ever either.
PORT_RESTARTS = 3
#: Seconds; no back-off is longer.
LONGEST_BACKOFF = 60.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Restart after `delay` seconds, or not; `charged` against `max_restarts`, or not."""

    restart: bool
    reason: str
    delay: float = 0.0
    charged: bool = True


def decide(state: State, cause: str) -> Decision:
    """Decides after a failure of `cause` (a word of `Failure.cause`)."""
    if cause == "port-collision" and state.restarts_for_ports < PORT_RESTARTS:
        done = state.restarts_for_ports + 1
        return Decision(True, f"not charged: a reserved port was taken ({done} of {PORT_RESTARTS})", charged=False)
    limit, used = state.spec.max_restarts, state.restarts_charged
    if used >= limit:
        said = "max_restarts = 0" if not limit else f"all {limit} restarts (max_restarts) are used up"
        return Decision(False, said)
    delay = backoff(state.spec.backoff, used, state.job_id)
    return Decision(True, f"restart {used + 1} of {limit}", delay=delay)


def backoff(base: float, done: int, seed: str) -> float:
    """Seconds to wait before the next restart: none before the first, then `base` doubling up to a minute.

    A jitter of up to a quarter (more, but less at the longest) keeps jobs that failed together from coming back
    together. It is derived from the job's id, so that a replay computes the same.
    """
    if done == 0:
        return 0.0
    jitter = zlib.crc32(f"{seed}/{done}".encode()) / 2**32 / 4
    return min(base * 2.0 ** min(done - 1, 30) * (1 + jitter), LONGEST_BACKOFF * (1 - jitter))
