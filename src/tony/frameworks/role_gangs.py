"""Which roles start together.

Roles with the same `after` become ready at the same moment, so the programs of one such group can wait for each other.
Programs of different groups cannot: a role that starts when others have ended would wait for the dead. Setup roles are
in no group: each of their programs starts by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tony.model.job_spec import JobSpec, Role
from tony.model.states import AfterCondition, RoleKind

#: Roles of these names stand beside a computation, under every framework: they watch what the others write.
BYSTANDERS = frozenset({"evaluator", "tensorboard"})
#: Kinds of roles that stand apart from a computation, whatever their names.
APART = frozenset({RoleKind.SIDECAR, RoleKind.SETUP})


def roles_together(spec: JobSpec) -> list[dict[str, Role]]:
    """The groups of roles that start together, and in each the roles by name; all in the job's order."""
    groups: dict[frozenset[tuple[str, AfterCondition]], dict[str, Role]] = {}
    for name, role in spec.effective_roles.items():
        if role.instances and role.kind is not RoleKind.SETUP:
            groups.setdefault(frozenset(role.after.items()), {})[name] = role
    return list(groups.values())


def lone_rank(spec: JobSpec, role: str) -> str | None:
    """Why one task of a role cannot start again alone where ranks compute together; None if it is no rank, or the only.

    An answer as of `Framework.lone_restart`.
    """
    for group in roles_together(spec):
        ranks = compute_roles(group)
        if role in ranks and sum(each.instances for each in ranks.values()) > 1:
            names = " and ".join(ranks)
            return f"the tasks of {names} compute together: all ranks wait for each other, and begin together"
    return None


def compute_roles(roles: Mapping[str, Role]) -> dict[str, Role]:
    """The roles of a group whose tasks compute together: no sidecars, no bystanders, none that only prepare.

    Evaluators that start by themselves (after the trainers, say) stand beside nobody: they compute together.
    """
    counted = {name: role for name, role in roles.items() if role.kind not in APART}
    return {name: role for name, role in counted.items() if name not in BYSTANDERS} or counted
