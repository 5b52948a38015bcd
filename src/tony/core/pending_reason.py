"""What was granted and what is missing, in words."""

from __future__ import annotations

from collections import Counter

from tony.core.state import RoleState, State

#: Hosts of one role that are named.
_NAMED = 10


def describe_pending(state: State) -> str:
    """`worker has 2 of 4 containers (on a, b), 2 are missing; ps has 1 of 1 (on a)`; empty if none is missing."""
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    if not any(len(role.waiting) for role in ready):
        return ""
    return "; ".join(_role(role) for role in ready)


def _role(role: RoleState) -> str:
    missing = len(role.waiting)
    said = f"{role.name} has {role.total - missing} of {role.total} containers"
    hosts = Counter(task.host for task in role.tasks if task.container and task.host)
    if hosts:
        names = [f"{host} ({count})" if count > 1 else host for host, count in list(hosts.items())[:_NAMED]]
        more = len(hosts) - _NAMED
        said += f" (on {', '.join(names)}{f' and {more} more hosts' if more > 0 else ''})"
    return said + (f", {missing} {'is' if missing == 1 else 'are'} missing" if missing else "")
