"""Mistakes that more than one framework has to refuse."""

from __future__ import annotations

from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode


def one_process_per_task(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuses `procs_per_task` above 1: the framework knows a task by one address, or its processes are all alike."""
    return [
        Problem(
            key=f"roles.{name}.procs_per_task",
            value=str(role.procs_per_task),
            message=f'framework = "{framework}" runs one process per task. Write procs_per_task = 1 and raise '
            "instances instead.",
        )
        for name, role in spec.effective_roles.items()
        if role.procs_per_task > 1
    ]


def whole_gang(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuses `distributed_mode = "fcfs"`: a program that starts before its peers are known cannot be told of them."""
    if spec.distributed_mode is not DistributedMode.FCFS:
        return []
    return [
        Problem(
            key="distributed_mode",
            value=spec.distributed_mode.value,
            message=f'framework = "{framework}" tells every program where rank 0 listens, and that is not known before '
            'all have registered. Write distributed_mode = "gang", or framework = "none" if the programs do not need '
            "each other.",
        )
    ]
