"""Check of the open files and processes that a job needs on this machine against the resource limits."""

from __future__ import annotations

import resource
from collections.abc import Sequence

from tony.errors import Problem
from tony.linux import resource_limit_errors
from tony.model.job_spec import JobSpec
from tony.schedulers.local.claims.peak_demand import coexisting

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
    return max(_EXECUTOR_FILES, _AM_FILES + _FILES_PER_EXECUTOR * tasks_at_a_time(spec))


def processes(spec: JobSpec) -> int:
    """Return the number of processes and threads of a job, not counting those that user programs start."""
    return _PROCESSES_OF_JOB + _PROCESSES_PER_TASK * tasks_at_a_time(spec)


def tasks_at_a_time(spec: JobSpec) -> int:
    """Return the most tasks that have a container at one time."""
    roles = spec.effective_roles
    return sum(roles[name].instances for name in coexisting(spec, lambda resources: 1))


def resource_limit_problems(spec: JobSpec) -> Sequence[Problem]:
    """Return problems where a job exceeds the user's resource limits, so that it can never run."""
    tasks = tasks_at_a_time(spec)
    job = f"{tasks} task{'' if tasks == 1 else 's'} at one time need"
    problems = []
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = open_files(spec)
    if most != resource.RLIM_INFINITY and most < wanted:
        text = f"{job} {wanted} open files in one process, but the hard limit is {most} (RLIMIT_NOFILE, ulimit -Hn)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    allowed = resource_limit_errors.process_limit()
    wanted = processes(spec)
    if allowed is not None and allowed < wanted:
        text = f"{job} {wanted} processes and threads or more, but the limit is {allowed} (RLIMIT_NPROC, ulimit -u)"
        problems.append(Problem(key="roles", message=f"{text}. {_ADVICE}"))
    return problems
