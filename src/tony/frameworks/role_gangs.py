"""Roles that start together.

Roles with the same `after` become ready at the same moment, so the programs of one such group can wait for each other.
Programs of different groups cannot: a role that starts when others have ended would wait for exited programs. Setup
roles are in no group: each of their programs starts by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tony.model.job_spec import JobSpec, Role
from tony.model.states import AfterCondition, RoleKind

#: Roles of these names are next to a computation, under every framework: they read what the others write.
BYSTANDERS = frozenset({"evaluator", "tensorboard"})
#: Kinds of roles that take no part in a computation, whatever their names.
APART = frozenset({RoleKind.SIDECAR, RoleKind.SETUP})


def roles_together(spec: JobSpec) -> list[dict[str, Role]]:
    """Return the groups of roles that start together, each as role name -> role; all in the job's order."""
    groups: dict[frozenset[tuple[str, AfterCondition]], dict[str, Role]] = {}
    for name, role in spec.effective_roles.items():
        if role.instances and role.kind is not RoleKind.SETUP:
            groups.setdefault(frozenset(role.after.items()), {})[name] = role
    return list(groups.values())


def lone_rank(spec: JobSpec, role: str) -> str | None:
    """Return why one task of a role cannot be restarted alone; None if it has no rank, or the only one.

    The text is as of `Framework.lone_restart`.
    """
    for group in roles_together(spec):
        ranks = compute_roles(group)
        if role in ranks and sum(each.instances for each in ranks.values()) > 1:
            names = " and ".join(ranks)
            return f"the tasks of {names} compute together: all ranks wait for each other and must start together"
    return None


def compute_roles(roles: Mapping[str, Role]) -> dict[str, Role]:
    """Return the roles of a group whose tasks compute together: without sidecars, bystanders and setup roles.

    A group of evaluators alone (that starts after the trainers, say) computes together.
    """
    counted = {name: role for name, role in roles.items() if role.kind not in APART}
    return {name: role for name, role in counted.items() if name not in BYSTANDERS} or counted
