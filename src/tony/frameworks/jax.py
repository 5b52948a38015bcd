"""JAX: the coordinator's address, the number of processes, and each process's number.

JAX itself reads only the coordinator's address and the device ids. A cluster environment for JAX reads the rest: it is
on the program's PYTHONPATH (`tony.python_hooks`), so `jax.distributed.initialize()` needs no arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.errors import Problem
from tony.frameworks.adapter_checks import check_whole_gang
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.ranks import (
    explain_lone_rank,
    find_task_of_rank,
    local_rank_variables,
    place_of,
    places,
    to_shared,
)
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role


class Jax(Framework):
    """One rank per process, the coordinator in process 0. Shared value: O(roles)."""

    name = "jax"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        uneven = [
            Problem(
                key=f"roles.{name}.gpus",
                value=str(role.resources.gpus),
                message=f"a JAX process owns its GPUs, and procs_per_task = {role.procs_per_task} processes cannot "
                f"share {role.resources.gpus} evenly. Make gpus a multiple of procs_per_task.",
            )
            for name, role in spec.effective_roles.items()
            if role.resources.gpus % role.procs_per_task
        ]
        return [*check_whole_gang(spec, self.name), *uneven]

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        return explain_lone_rank(spec, role)

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        found = places(spec, cluster)
        devices = {name: _devices_per_process(spec.effective_roles[name]) for name in found}
        return {"places": to_shared(found), "devices": {name: count for name, count in devices.items() if count}}

    def find_task(self, shared: Json, task: TaskView, process: int) -> TaskId | None:
        return find_task_of_rank(shared["places"], task, process) if shared else None

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        rank_variables = local_rank_variables(task)
        place = place_of(shared["places"], task.task.role) if shared else None
        if place is None:
            return rank_variables
        devices = shared["devices"].get(task.task.role, 0)
        first = place.first_rank + task.task.index * len(rank_variables)
        return [
            {
                "JAX_COORDINATOR_ADDRESS": place.coordinator,
                "JAX_NUM_PROCESSES": str(place.world),
                "JAX_PROCESS_ID": str(first + number),
                **_device_ids(number, devices),
                **variables,
            }
            for number, variables in enumerate(rank_variables)
        ]


def _devices_per_process(role: Role) -> int:
    """Return the GPUs per process; 0: all visible ones. Several processes would each take all GPUs of the task."""
    return role.resources.gpus // role.procs_per_task if role.procs_per_task > 1 else 0


def _device_ids(number: int, devices: int) -> dict[str, str]:
    """Return the GPUs of one process, counted among those in CUDA_VISIBLE_DEVICES."""
    if not devices:
        return {}
    return {"JAX_LOCAL_DEVICE_IDS": ",".join(str(number * devices + i) for i in range(devices))}
