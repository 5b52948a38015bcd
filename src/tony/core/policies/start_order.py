"""Which roles may start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tony.core.state import RoleState
from tony.model.states import AfterCondition


def newly_ready(roles: Mapping[str, RoleState]) -> Iterable[RoleState]:
    """Roles that are not ready yet and whose every `after` is satisfied now."""
    return [
        role
        for role in roles.values()
        if not role.ready and not role.finished and all(roles[name].satisfies(c) for name, c in role.spec.after.items())
    ]


def unsatisfiable(roles: Mapping[str, RoleState], ended: RoleState) -> tuple[RoleState, str] | None:
    """A role that waits for the success of `ended` although a task of that role will never succeed.

    Returns:
        The waiting role and the reason, or None.
    """
    hopeless = ended.ended - ended.succeeded
    if not hopeless or ended.finished:
        return None
    for role in roles.values():
        if not role.ready and role.spec.after.get(ended.name) is AfterCondition.SUCCEEDED:
            return role, f"{role.name} may start only after {ended.name} succeeded, and {hopeless} of its tasks did not"
    return None


def group_done(roles: Mapping[str, RoleState], members: Iterable[str]) -> bool:
    """True when every task of every role of a group is over."""
    return all(roles[name].finished or roles[name].ended == roles[name].total for name in members if name in roles)
