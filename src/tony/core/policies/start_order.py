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


def newly_blocked(roles: Mapping[str, RoleState]) -> Iterable[tuple[RoleState, str]]:
    """Roles that can never become ready in this session, each with the reason, and not told before.

    A role waits in vain for the success of one that is over without it, for the start of one of which a task is over
    and was never started, and for anything at all of one that is itself blocked.
    """
    found: dict[str, tuple[RoleState, str]] = {}
    seen = -1
    while len(found) > seen:
        seen = len(found)
        for role in roles.values():
            if role.ready or role.finished or role.blocked or role.name in found:
                continue
            for name, condition in role.spec.after.items():
                why = _in_vain(roles[name], condition, blocked=name in found)
                if why:
                    found[role.name] = role, f"{role.name} {why}"
                    break
    return found.values()


def _in_vain(other: RoleState, condition: AfterCondition, *, blocked: bool) -> str:
    """Why `condition` will never be true of `other`; empty if it is or may become true."""
    if other.finished:
        return ""
    if blocked or other.blocked:
        return f"waits for {other.name}, which can never start"
    if condition is AfterCondition.SUCCEEDED and other.ended == other.total and other.succeeded < other.total:
        return f"may start only after {other.name} succeeded, and {other.total - other.succeeded} of its tasks did not"
    if condition is AfterCondition.STARTED and other.unstarted:
        return f"may start only once all of {other.name} runs, and {other.unstarted} of its tasks never did"
    return ""


def group_done(roles: Mapping[str, RoleState], members: Iterable[str]) -> bool:
    """True when every task of every role of a group is over."""
    return all(roles[name].finished or roles[name].ended == roles[name].total for name in members if name in roles)
