"""Decides which roles may start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tony.core.state import RoleState
from tony.model.setting_choices import AfterCondition


def find_newly_ready(roles: Mapping[str, RoleState]) -> Iterable[RoleState]:
    """Return roles that are not ready yet and whose every `after` is satisfied now."""
    return [
        role
        for role in roles.values()
        if not role.ready and not role.finished and all(roles[name].satisfies(c) for name, c in role.spec.after.items())
    ]


def find_newly_blocked(roles: Mapping[str, RoleState]) -> Iterable[tuple[RoleState, str]]:
    """Return roles that can never become ready in this session and were not reported before, each with the reason.

    A role is blocked if it waits for the success of a role that ended without it, for the start of a role of which a
    task ended without being started, or for any role that is itself blocked.
    """
    found: dict[str, tuple[RoleState, str]] = {}
    seen = -1
    while len(found) > seen:
        seen = len(found)
        for role in roles.values():
            if role.ready or role.finished or role.blocked or role.name in found:
                continue
            for name, condition in role.spec.after.items():
                why = _explain_never_satisfied(roles[name], condition, blocked=name in found)
                if why:
                    found[role.name] = role, f"{role.name} {why}"
                    break
    return found.values()


def _explain_never_satisfied(other: RoleState, condition: AfterCondition, *, blocked: bool) -> str:
    """Return why `condition` will never be true of `other`; empty if it is or may become true."""
    if other.finished:
        return ""
    if blocked or other.blocked:
        return f"waits for {other.name}, which can never start"
    if condition is AfterCondition.SUCCEEDED and other.ended == other.total and other.succeeded < other.total:
        return f"may start only after {other.name} succeeded, and {other.total - other.succeeded} of its tasks did not"
    if condition is AfterCondition.STARTED and other.unstarted:
        return f"may start only once all tasks of {other.name} run, and {other.unstarted} of them never started"
    return ""


def is_group_done(roles: Mapping[str, RoleState], members: Iterable[str]) -> bool:
    """Return True when every task of every role of a group has ended."""
    return all(roles[name].finished or roles[name].ended == roles[name].total for name in members if name in roles)
