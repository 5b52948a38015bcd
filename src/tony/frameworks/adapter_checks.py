"""Checks that several adapters share: processes per task, whole gangs, the size of a variable. Pure."""

from __future__ import annotations

from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import DistributedMode

#: Bytes of one string `NAME=value` with its final NUL. Linux refuses to start a program with a longer one
#: (MAX_ARG_STRLEN, 32 pages of 4 KiB; execve(2)). All strings together have room for about 2 MB.
MAX_STRING = 128 * 1024


def string_size(name: str, value: str) -> int:
    """Return the bytes of a variable in the environment: `NAME=value` and the final NUL."""
    return len(name.encode()) + len(value.encode(errors="surrogateescape")) + 2


def check_one_process(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuse `procs_per_task` above 1: the framework has one address per task, or needs distinct processes."""
    return [
        Problem(
            key=f"roles.{name}.procs_per_task",
            value=str(role.procs_per_task),
            message=f'framework = "{framework}" runs one process per task. Set procs_per_task = 1 and raise '
            "instances instead.",
        )
        for name, role in spec.effective_roles.items()
        if role.procs_per_task > 1
    ]


def check_whole_gang(spec: JobSpec, framework: str) -> list[Problem]:
    """Refuse `distributed_mode = "fcfs"`: a program started before its peers registered lacks their addresses."""
    if spec.distributed_mode is not DistributedMode.FCFS:
        return []
    return [
        Problem(
            key="distributed_mode",
            value=spec.distributed_mode.value,
            message=f'framework = "{framework}" passes the address of rank 0 to every program, which is not known '
            'before all tasks have registered. Set distributed_mode = "gang", or framework = "none" if the programs do '
            "not need each other.",
        )
    ]
