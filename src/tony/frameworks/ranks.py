"""Ranks: which roles start together and compute together, and the order of their tasks and processes.

Roles with the same `after` become ready at the same moment, so the programs of one such group can wait for each other.
Programs of different groups cannot: a role that starts when others have ended would wait for exited programs. Setup
roles are in no group: each of their programs starts by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tony.frameworks.framework_interface import TaskView
from tony.model.codec import Json, from_plain, to_plain
from tony.model.ids import TaskId
from tony.model.job_spec import BYSTANDERS, ClusterSpec, JobSpec, Role
from tony.model.setting_choices import AfterCondition, RoleKind

#: Kinds of roles that take no part in a computation, whatever their names.
APART = frozenset({RoleKind.SIDECAR, RoleKind.SETUP})


def roles_together(spec: JobSpec) -> list[dict[str, Role]]:
    """Return the groups of roles that start together, each as role name -> role; all in the job's order."""
    groups: dict[frozenset[tuple[str, AfterCondition]], dict[str, Role]] = {}
    for name, role in spec.effective_roles.items():
        if role.instances and role.kind is not RoleKind.SETUP:
            groups.setdefault(frozenset(role.after.items()), {})[name] = role
    return list(groups.values())


def explain_lone_rank(spec: JobSpec, role: str) -> str | None:
    """Return why one task of a role cannot be restarted alone; None if it has no rank, or the only one.

    The text is as of `Framework.check_lone_restart`.
    """
    for group in roles_together(spec):
        ranks = compute_roles(group)
        if role in ranks and sum(rank.instances for rank in ranks.values()) > 1:
            names = " and ".join(ranks)
            return f"the tasks of {names} compute together: all ranks wait for each other and must start together"
    return None


def compute_roles(roles: Mapping[str, Role]) -> dict[str, Role]:
    """Return the roles of a group whose tasks compute together: without sidecars, bystanders and setup roles.

    A group of evaluators alone (that starts after the trainers, say) computes together.
    """
    counted = {name: role for name, role in roles.items() if role.kind not in APART}
    return {name: role for name, role in counted.items() if name not in BYSTANDERS} or counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRanks:
    """The position of a role in the rank order.

    Attributes:
        coordinator: "host:port" reserved for the task with rank 0.
        world: total number of ranks.
        first_rank: rank of the first process of the role's task 0.
        first_task: position of the role's task 0 among all tasks, counted from 0.
    """

    coordinator: str
    world: int
    first_rank: int
    first_task: int


def places(spec: JobSpec, cluster: ClusterSpec) -> dict[str, RoleRanks]:
    """Return the ranks of every role of the cluster spec that has ranks.

    A group of which a part has ended has none: its programs can no longer rendezvous.
    """
    found: dict[str, RoleRanks] = {}
    for group in roles_together(spec):
        roles = _chief_first(spec, compute_roles(group))
        if roles and all(name in cluster.roles for name in roles):
            found.update(_lay_out(roles, cluster))
    return found


def _chief_first(spec: JobSpec, roles: Mapping[str, Role]) -> dict[str, Role]:
    chief = spec.chief.role if spec.chief else None
    return {name: roles[name] for name in sorted(roles, key=lambda name: name != chief)}  # a stable sort


def _lay_out(roles: Mapping[str, Role], cluster: ClusterSpec) -> dict[str, RoleRanks]:
    coordinator = cluster.roles[next(iter(roles))][0]
    world = sum(role.instances * role.procs_per_task for role in roles.values())
    found: dict[str, RoleRanks] = {}
    rank = task = 0
    for name, role in roles.items():
        found[name] = RoleRanks(coordinator=coordinator, world=world, first_rank=rank, first_task=task)
        rank += role.instances * role.procs_per_task
        task += role.instances
    return found


def to_shared(found: Mapping[str, RoleRanks]) -> Json:
    """Return the ranks as plain JSON: role -> RoleRanks."""
    return to_plain(found)


def place_of(shared: Json, role: str) -> RoleRanks | None:
    """Return a role's ranks from the shared value; None if its tasks have no ranks."""
    return from_plain(RoleRanks, shared[role]) if shared and role in shared else None


def find_task_of_rank(shared: Json, task: TaskView, rank: int) -> TaskId | None:
    """Return the task with a rank, of those that compute together with a task; None if there is none."""
    own = place_of(shared, task.task.role)
    if own is None or rank >= own.world:
        return None
    found = [(place.first_rank, role, place.coordinator) for role in shared if (place := place_of(shared, role))]
    first, role, _ = max(each for each in found if each[0] <= rank and each[2] == own.coordinator)
    return TaskId(role, (rank - first) // task.procs.get(role, 1))


def processes(task: TaskView) -> int:
    """Return the number of processes that the task starts."""
    return task.procs.get(task.task.role, 1)


def local_rank(task: TaskView, number: int) -> dict[str, str]:
    """Return the variables that distinguish the processes of one task."""
    return {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(processes(task))}


def local_rank_variables(task: TaskView) -> list[dict[str, str]]:
    """Return the variables of a task without ranks: `local_rank` if it has several processes, else none.

    A single process is not given LOCAL_RANK 0 of 1: libraries take LOCAL_RANK as a sign of torchrun.
    """
    count = processes(task)
    return [local_rank(task, number) for number in range(count)] if count > 1 else [{}]
