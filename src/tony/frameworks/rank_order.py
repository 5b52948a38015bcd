"""One rank order over all tasks that compute together.

The roles of a group (`role_gangs.py`) are concatenated: the chief's role first, so that rank 0 is the chief, then the
others in the job's order; inside a role by task index, inside a task by process. What a task needs of this is the same
for its whole role, and small: the shared value is O(roles), whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tony.frameworks.base import TaskView
from tony.frameworks.role_gangs import compute_roles, roles_together
from tony.model.cluster_spec import ClusterSpec
from tony.model.codec import Json, from_plain, to_plain
from tony.model.job_spec import JobSpec, Role


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

    A group of which a part has ended has none: its programs cannot rendezvous any more.
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
