"""How many open files and processes a job takes of its user on this machine, and whether they may be had."""

from __future__ import annotations

import resource
from collections.abc import Sequence

from tony.errors import Problem
from tony.linux import resource_limits
from tony.model.job_spec import JobSpec
from tony.schedulers.local.peak_demand import coexisting

#: Open files of an application master: its own, those of tasks that are laid down and started at this moment, a few
#: clients; for each executor a connection and a handle on its process.
_MASTER, _PER_EXECUTOR = 40, 2
#: Open files of an executor at its program's start.
_EXECUTOR = 24
#: Processes and threads: client, supervisor, application master and their threads; executor, watchdog and program.
_PROCESSES, _PROCESSES_PER_TASK = 9, 3
_ADVICE = "Raise it, or ask for fewer tasks."


def open_files(spec: JobSpec) -> int:
    """The most files that one process of a job has open."""
    return max(_EXECUTOR, _MASTER + _PER_EXECUTOR * tasks_at_a_time(spec))


def processes(spec: JobSpec) -> int:
    """Processes and threads that a job takes, besides what its programs start."""
    return _PROCESSES + _PROCESSES_PER_TASK * tasks_at_a_time(spec)


def tasks_at_a_time(spec: JobSpec) -> int:
    """The most tasks that have a container at one time."""
    roles = spec.effective_roles
    return sum(roles[name].instances for name in coexisting(spec, lambda resources: 1))


def too_much(spec: JobSpec) -> Sequence[Problem]:
    """What no process of this user may have, so that the job cannot run however long it waits."""
    tasks = tasks_at_a_time(spec)
    job = f"{tasks} task{'' if tasks == 1 else 's'} at one time: that takes"
    problems = []
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = open_files(spec)
    if most != resource.RLIM_INFINITY and most < wanted:
        text = f"{job} {wanted} open files in one process, and the hard limit is {most} (RLIMIT_NOFILE, ulimit -Hn)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    allowed = resource_limits.process_limit()
    wanted = processes(spec)
    if allowed is not None and allowed < wanted:
        text = f"{job} {wanted} processes and threads or more, and the limit is {allowed} (RLIMIT_NPROC, ulimit -u)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    return problems
