"""Check that a job can ever fit on a machine, with the arithmetic. Pure."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.linux import resource_limits
from tony.model.job_spec import JobSpec, Resources
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.peak_demand import (
    compute_gpus,
    compute_memory,
    find_coexisting,
    reduce_to_least,
    sum_weights,
)
from tony.units import format_count, format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResourceKind:
    """One kind of resource, and its wording in messages."""

    key: str
    get_amount: Callable[[Resources], int]
    has: int
    text: Callable[[int], str]
    machine: str
    less: str
    alternative: str = ""
    none: str = ""


def find_unsatisfiable_requests(spec: JobSpec, machine: Machine) -> Sequence[Problem]:
    """Return requests of a job that this machine can never satisfy, even when it is idle."""
    kinds = (
        _ResourceKind(
            key="memory",
            get_amount=compute_memory,
            has=machine.memory,
            text=format_size,
            machine=f"{format_size(machine.memory)} of memory{_format_reason(machine.memory_origin)}",
            less="less memory",
        ),
        _ResourceKind(
            key="gpus",
            get_amount=compute_gpus,
            has=len(machine.gpus),
            text=lambda number: format_count(number, "GPU"),
            machine=f"{format_count(len(machine.gpus), 'GPU')}{_format_reason(machine.gpus_origin)}",
            less="fewer GPUs" if machine.gpus else "none",
            alternative=", or simulate some for a test with scheduler.local.gpus",
            none="" if machine.gpus or machine.gpus_origin else "this machine has no NVIDIA GPU",
        ),
    )
    return [
        *(problem for kind in kinds for problem in _find_problems(reduce_to_least(spec), kind)),
        *_find_too_few_ports(spec),
    ]


def _find_too_few_ports(spec: JobSpec) -> list[Problem]:
    """Return roles whose tasks, all on this machine, need more ports than their range has."""
    problems = []
    for name, role in spec.effective_roles.items():
        ports = spec.port_range_of(name)
        board = spec.tensorboard_task
        boards = (role.instances if role.min_instances is not None else 1) if board and board.role == name else 0
        needed = role.instances + boards
        if ports and ports[1] - ports[0] + 1 < needed:
            problems.append(
                Problem(
                    key=f"roles.{name}.port_range" if role.port_range else "port_range",
                    value=f"{ports[0]}-{ports[1]}",
                    message=f"{name} needs {needed} ports on this machine, one for each task"
                    f"{_format_boards(boards)}. Set a wider range, or none.",
                )
            )
    return problems


def _format_boards(boards: int) -> str:
    if not boards:
        return ""
    return " and one for TensorBoard" if boards == 1 else " and one for each possible TensorBoard"


def _find_problems(spec: JobSpec, kind: _ResourceKind) -> list[Problem]:
    roles = spec.effective_roles
    limit = kind.none or f"one task can have at most {kind.machine}"
    too_large = [
        Problem(
            key=f"roles.{name}.{kind.key}",
            value=kind.text(kind.get_amount(role.resources)),
            message=f"{limit}. Request {kind.less}{kind.alternative}.",
        )
        for name, role in roles.items()
        if role.instances and kind.get_amount(role.resources) > kind.has
    ]
    if too_large:
        return too_large
    together = find_coexisting(spec, kind.get_amount)
    required = sum(sum_weights(roles[name], kind.get_amount) for name in together)
    if required <= kind.has:
        return []
    sums = " + ".join(
        f"{name}: {roles[name].instances} x {kind.text(kind.get_amount(roles[name].resources))}" for name in together
    )
    first = kind.key if len(together) == 1 else ""
    return [
        Problem(
            key=f"roles.{together[0]}.{first}" if first else "roles",
            message=f"the job requests {sums} = {kind.text(required)} at the same time; this machine has "
            f"{kind.machine}. Request {kind.less} or fewer instances{kind.alternative}.",
        )
    ]


def _format_reason(origin: str) -> str:
    return f" ({origin})" if origin else ""


#: Open files of an application master: its own, those of tasks being started at this moment, and a few clients; for
#: each executor a connection and a pidfd.
_AM_FILES = 40
_FILES_PER_EXECUTOR = 2
#: Open files of an executor when its user program starts.
_EXECUTOR_FILES = 24
#: Processes and threads: client, supervisor, application master and their threads; executor, watchdog and program.
_PROCESSES_OF_JOB = 9
_PROCESSES_PER_TASK = 3
_ADVICE = "Raise it, or request fewer tasks."


def open_files(spec: JobSpec) -> int:
    """Return the most files that one process of a job has open."""
    return max(_EXECUTOR_FILES, _AM_FILES + _FILES_PER_EXECUTOR * count_tasks_at_a_time(spec))


def processes(spec: JobSpec) -> int:
    """Return the number of processes and threads of a job, not counting those that user programs start."""
    return _PROCESSES_OF_JOB + _PROCESSES_PER_TASK * count_tasks_at_a_time(spec)


def count_tasks_at_a_time(spec: JobSpec) -> int:
    """Return the most tasks that have a container at one time."""
    roles = spec.effective_roles
    return sum(roles[name].instances for name in find_coexisting(spec, lambda resources: 1))


def find_limit_problems(spec: JobSpec) -> Sequence[Problem]:
    """Return problems where a job exceeds the user's resource limits, so that it can never run."""
    tasks = count_tasks_at_a_time(spec)
    job = f"{format_count(tasks, 'task')} at one time need"
    problems = []
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = open_files(spec)
    if most != resource.RLIM_INFINITY and most < required:
        text = f"{job} {required} open files in one process, but the hard limit is {most} (RLIMIT_NOFILE, ulimit -Hn)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    allowed = resource_limits.find_process_limit()
    required = processes(spec)
    if allowed is not None and allowed < required:
        text = f"{job} {required} processes and threads or more, but the limit is {allowed} (RLIMIT_NPROC, ulimit -u)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    return problems
