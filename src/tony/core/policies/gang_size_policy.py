"""With how many tasks a session may start, where roles may have fewer than requested.

The first session waits `gang_wait` for all of them, every later one `shrink_after`. Then it starts with the tasks
that have a container, if these are at least `min` of each elastic role and all of every other.
"""

from __future__ import annotations

import zlib

from tony.core.deadline import Deadline, DeadlineKind
from tony.core.state import RoleState, State
from tony.model.setting_choices import RoleKind

#: The deadlines of the first session and of later ones.
FIRST = Deadline(DeadlineKind.GANG_WAIT)
LATER = Deadline(DeadlineKind.SHRINK_AFTER)
#: A short extra wait for more containers, once the wait has expired and there are enough, or some were released.
SOON = Deadline(DeadlineKind.GANG_SOON)
DEADLINES = (FIRST, LATER, SOON)


def choose_wait(state: State) -> tuple[Deadline, float | None]:
    """Return the deadline and the seconds of this session's wait; None: it waits for all."""
    spec = state.spec
    return (FIRST, spec.gang_wait) if state.session <= 1 else (LATER, spec.shrink_after)


def find_forming_roles(state: State) -> list[RoleState]:
    """Return the roles whose tasks start together next: ready, and not yet published."""
    together = (RoleKind.TRACKED, RoleKind.UNTRACKED)
    return [r for r in state.roles.values() if r.ready and not r.finished and not r.version and r.kind in together]


def is_elastic(state: State) -> bool:
    """Return True if a role that may have fewer tasks is among those that start together next."""
    return bool(state.spec.elastic_roles) and any(r.spec.min_instances is not None for r in find_forming_roles(state))


def has_enough(state: State) -> bool:
    """Return True if the next gang could start without the tasks that have no container."""
    if not is_elastic(state) or choose_wait(state)[1] is None:
        return False
    return all(count_surplus(role) >= 0 for role in find_forming_roles(state))


def count_surplus(role: RoleState) -> int:
    """Return how many tasks with a container a role has above its minimum; negative if it lacks some."""
    return role.total - len(role.waiting) - _find_minimum(role)


def _find_minimum(role: RoleState) -> int:
    return role.total if role.spec.min_instances is None else role.spec.min_instances


#: Mean seconds of the first pause; each further one is twice as long.
FIRST_PAUSE_SECONDS = 5.0
#: Upper bound of the mean, in seconds.
MAX_PAUSE_SECONDS = 60.0


def compute_gang_timeout(base: float, done: int, seed: str) -> float:
    """Return the seconds without a new grant until the gang releases its containers: `base` to 1.25 `base`."""
    return base * (1 + _compute_jitter(f"{seed}/patience/{done}") / 4)


def compute_gang_pause(times: int, seed: str) -> float:
    """Return the seconds to request nothing after the `times`-th release in a row: exponential, jitter of ±50 %."""
    middle = min(FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 30), MAX_PAUSE_SECONDS)
    return middle * (0.5 + _compute_jitter(f"{seed}/pause/{times}"))


def _compute_jitter(text: str) -> float:
    return zlib.crc32(text.encode()) / 2**32
