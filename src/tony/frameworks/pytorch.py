"""PyTorch: the variables that `torch.distributed.init_process_group` reads, as torchrun would set them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.errors import Problem
from tony.frameworks.adapter_checks import check_whole_gang
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.ranks import (
    RoleRanks,
    explain_lone_rank,
    local_rank,
    local_rank_variables,
    place_of,
    places,
    processes,
    to_shared,
)
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec, JobSpec

#: Collective operations that PyTorch records, for stack traces and hangs: the default of newer versions.
FLIGHT_RECORDER_SIZE = "2000"


class PyTorch(Framework):
    """One rank per process, the rendezvous at rank 0. Shared value: role -> ranks, O(roles)."""

    name = "pytorch"

    def validate(self, spec: JobSpec) -> Sequence[Problem]:
        return check_whole_gang(spec, self.name)

    def defaults(self) -> Mapping[str, str]:
        return {"TORCH_FR_BUFFER_SIZE": FLIGHT_RECORDER_SIZE}

    def check_lone_restart(self, spec: JobSpec, role: str) -> str | None:
        return explain_lone_rank(spec, role)

    def check_elastic(self, spec: JobSpec, role: str) -> str | None:
        return None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Json:
        return to_shared(places(spec, cluster))

    def environment(self, shared: Json, task: TaskView) -> Sequence[Mapping[str, str]]:
        place = place_of(shared, task.task.role)
        if place is None:
            return local_rank_variables(task)
        return [_rank(place, task, number) for number in range(processes(task))]


def _rank(place: RoleRanks, task: TaskView, number: int) -> dict[str, str]:
    host, _, port = place.coordinator.rpartition(":")
    index = task.task.index
    return {
        "MASTER_ADDR": host.strip("[]"),  # an IPv6 address is bare here, in brackets in a URL
        "MASTER_PORT": port,
        "WORLD_SIZE": str(place.world),
        "RANK": str(place.first_rank + index * processes(task) + number),
        **local_rank(task, number),
        "GROUP_RANK": str(place.first_task + index),
        # LinkedIn TonY's names for the same. Its RANK was the task's index, its WORLD the number of tracked tasks.
        "INIT_METHOD": f"tcp://{place.coordinator}",
        "WORLD": str(place.world),
    }
