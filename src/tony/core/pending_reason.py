"""Words which containers were granted and which are missing."""

from __future__ import annotations

from collections import Counter

from tony.core.state import RoleState, State

#: Maximum number of hosts listed for a role.
_MAX_HOSTS = 10


def describe_pending(state: State) -> str:
    """Return `worker has 2 of 4 containers (on a, b), 2 are missing; ps has 1 of 1 (on a)`; empty if none is."""
    ready = [role for role in state.roles.values() if role.ready and not role.finished]
    if not any(len(role.waiting) for role in ready):
        return ""
    return "; ".join(_describe_role(role) for role in ready)


def _describe_role(role: RoleState) -> str:
    missing = len(role.waiting)
    text = f"{role.name} has {role.total - missing} of {role.total} containers"
    hosts = Counter(task.host for task in role.tasks if task.container and task.host)
    if hosts:
        names = [f"{host} ({count})" if count > 1 else host for host, count in list(hosts.items())[:_MAX_HOSTS]]
        more = len(hosts) - _MAX_HOSTS
        text += f" (on {', '.join(names)}{f' and {more} more hosts' if more > 0 else ''})"
    return text + (f", {missing} {'is' if missing == 1 else 'are'} missing" if missing else "")
