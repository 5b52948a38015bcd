"""MXNet's parameter server: the variables that ps-lite reads.

Roles are those of ps-lite: one `scheduler`, at least one `server`, at least one `worker`. All run the same program: in
the first two, `import mxnet` itself serves, and exits when all workers have exited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tony.errors import Problem
from tony.frameworks.adapter_checks import check_whole_gang
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.ranks import compute_roles, local_rank_variables, roles_together
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec, JobSpec, Role

SCHEDULER = "scheduler"
SERVER = "server"
WORKER = "worker"
ROLES = (SCHEDULER, SERVER, WORKER)


class MxNet(Framework):
    """Every program gets the scheduler's address and the number of processes. Shared value: O(1)."""

    name = "mxnet"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        problems = [*check_whole_gang(spec, self.name), *_check_roles(spec)]
        return problems or [*_check_together(spec)]

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        if role in ROLES:
            return "ps-lite does not let a process rejoin that its scheduler has known before"
        return None

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return (
            "each server keeps a part of the model, partitioned for a fixed number of servers"
            if role == SERVER
            else None
        )

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        if any(name not in cluster.roles for name in ROLES):
            return None
        return {
            "scheduler": cluster.roles[SCHEDULER][0],
            "servers": _processes(spec.effective_roles[SERVER]),
            "workers": _processes(spec.effective_roles[WORKER]),
        }

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        rank_variables = local_rank_variables(task)
        if shared is None or task.task.role not in ROLES:
            return rank_variables
        host, _, port = shared["scheduler"].rpartition(":")
        variables = {
            "DMLC_ROLE": task.task.role,
            # The scheduler binds this very address: ps-lite takes no host name here.
            "DMLC_PS_ROOT_URI": task.ip_of(host.strip("[]")),
            "DMLC_PS_ROOT_PORT": port,
            "DMLC_LOCAL": "0",
            "DMLC_NUM_SERVER": str(shared["servers"]),
            "DMLC_NUM_WORKER": str(shared["workers"]),
            # Where the others reach this process. By default ps-lite takes the first network interface it finds.
            "DMLC_NODE_HOST": task.ip_of(task.address.rpartition(":")[0].strip("[]")),
        }
        return [{**variables, **own} for own in rank_variables]


def _processes(role: Role) -> int:
    return role.instances * role.procs_per_task


def _check_roles(spec: JobSpec) -> Iterator[Problem]:
    for name in ROLES:
        role = spec.effective_roles.get(name)
        count = _processes(role) if role else 0
        if count == 0:
            yield Problem(
                key=f"roles.{name}.instances" if role else "roles",
                value="0" if role else ", ".join(spec.effective_roles),
                message=f'framework = "mxnet" needs a role {name}: one scheduler, and at least one server and one '
                f"worker. Add [roles.{name}] with instances = 1 or more.",
            )
        elif role and name not in compute_roles({name: role}):
            yield Problem(
                key=f"roles.{name}.kind",
                value=role.kind.value,
                message=f"the other roles wait for every {name}, so it must take part in the computation. Set kind = "
                '"tracked" or "untracked".',
            )
        elif role and name == SCHEDULER and count > 1:
            several = "instances" if role.instances > 1 else "procs_per_task"
            yield Problem(
                key=f"roles.{name}.{several}",
                value=str(getattr(role, several)),
                message=f"MXNet has exactly one scheduler. Set {several} = 1.",
            )


def _check_together(spec: JobSpec) -> Iterator[Problem]:
    if any(all(name in group for name in ROLES) for group in roles_together(spec)):
        return
    late = [name for name in ROLES if spec.effective_roles[name].after]
    yield Problem(
        key=f"roles.{late[0]}.after",
        value=", ".join(spec.effective_roles[late[0]].after),
        message="scheduler, server and worker wait for each other, so they must start together. Give all three the "
        "same `after`.",
    )
