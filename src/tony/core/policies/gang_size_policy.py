"""With how many tasks a session may start, where roles may have fewer than they ask for.

The first session waits `gang_wait` for all of them, every later one `shrink_after`. Then it takes what there is, if
that is at least `min` of each such role and all of every other.
"""

from __future__ import annotations

from tony.core.state import RoleState, State
from tony.model.states import RoleKind

#: Names of the deadlines, and of the settings that they come from.
FIRST, LATER = "gang-wait", "shrink-after"
#: The deadline of a moment in which more may come, when the wait is over and there are enough or room was made.
SOON = "gang-soon"
TIMERS = (FIRST, LATER, SOON)


def wait(state: State) -> tuple[str, float | None]:
    """Name and seconds of the present session's wait; None: it waits for all."""
    spec = state.spec
    return (FIRST, spec.gang_wait) if state.session <= 1 else (LATER, spec.shrink_after)


def forming(state: State) -> list[RoleState]:
    """The roles whose tasks start together next: ready, and not published yet."""
    together = (RoleKind.TRACKED, RoleKind.UNTRACKED)
    return [r for r in state.roles.values() if r.ready and not r.finished and not r.version and r.kind in together]


def is_elastic(state: State) -> bool:
    """Whether a role that may have fewer tasks is among those that start together next."""
    return bool(state.spec.elastic_roles) and any(r.spec.min_instances is not None for r in forming(state))


def enough(state: State) -> bool:
    """Whether those that start together next could go without all who have no container."""
    if not is_elastic(state) or wait(state)[1] is None:
        return False
    return all(surplus(role) >= 0 for role in forming(state))


def surplus(role: RoleState) -> int:
    """How many tasks with a container a role has beyond the least; below zero, how many it lacks."""
    return role.total - len(role.waiting) - _least(role)


def _least(role: RoleState) -> int:
    return role.total if role.spec.min_instances is None else role.spec.min_instances
