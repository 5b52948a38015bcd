"""The client's half of the local scheduler: checks, starts the application master, cleans up after a dead one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tony.errors import Problem
from tony.linux.liveness_lock import is_held
from tony.linux.thread_pools import to_thread
from tony.model.codec import Json, to_plain
from tony.model.health_check import HealthCheck
from tony.model.job_spec import JobSpec
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import PreparedJob, Submitter
from tony.schedulers.local.capabilities import CAPABILITIES
from tony.schedulers.local.claims import ledger
from tony.schedulers.local.claims.machine_capacity import measure
from tony.schedulers.local.claims.peak_demand import compute_peak
from tony.schedulers.local.containers.cleanup import end_job
from tony.schedulers.local.containers.container_recovery import read_launch_record
from tony.schedulers.local.feasibility import find_limit_problems, find_unsatisfiable_requests
from tony.schedulers.local.settings import DEFAULT_LEDGER, read_settings
from tony.schedulers.local.supervision.am_start import start_master
from tony.schedulers.settings_schema import load_recorded_values

if TYPE_CHECKING:
    from tony.storage.staging.remote_files_interface import RemoteFiles

#: Attempts to kill what a dead AM left; each waits some seconds for processes stuck in the kernel.
_KILL_ATTEMPTS = 3


class LocalSubmitter(Submitter):
    """Jobs as processes of this machine."""

    capabilities: Capabilities = CAPABILITIES

    def __init__(self, home: Home) -> None:
        self._home = home

    def check(self, spec: JobSpec) -> Sequence[Problem]:
        settings, problems = read_settings(spec.scheduler_settings)
        if settings.ledger is not None and (problem := ledger.explain_unusable(settings.ledger)):
            problems.append(
                Problem(
                    key="scheduler.local.ledger",
                    value=str(settings.ledger),
                    message=f"cannot be the ledger: {problem}. Remove the setting, or set it to a writable folder.",
                )
            )
        machine = measure(settings, with_gpus=compute_peak(spec).gpus > 0)
        return [
            *problems,
            *find_unsatisfiable_requests(spec, machine),
            *find_limit_problems(spec),
            *_check_interpreters(spec),
        ]

    def notices(self, spec: JobSpec) -> Sequence[str]:
        settings, _ = read_settings(spec.scheduler_settings)
        problem = "" if settings.ledger else ledger.explain_unusable(DEFAULT_LEDGER)
        if not problem:
            return ()
        return (ledger.format_fallback_notice(DEFAULT_LEDGER, problem, ledger.find_own_ledger(self._home)),)

    def check_health(self) -> Iterable[HealthCheck]:
        from tony.schedulers.local.health_checks import check_machine  # late: only for `tony doctor`

        return check_machine(read_settings({})[0])

    def remote_files(self, spec: JobSpec, others: Mapping[str, Mapping[str, object]]) -> RemoteFiles:
        from tony.storage.hdfs.hdfs_clients import find_hdfs  # late: most jobs name no URI
        from tony.storage.hdfs.hdfs_remote_files import HdfsFiles

        return HdfsFiles(find_hdfs(self._home, others))

    def render(self, job: PreparedJob) -> Json:
        spec = job.record.spec
        settings, _ = read_settings(spec.scheduler_settings)
        need = compute_peak(spec)
        return {
            "scheduler": "local",
            "claim": {
                "ledger": str(settings.ledger or DEFAULT_LEDGER),
                "memory": need.memory,
                "gpus": need.gpus,
            },
            "containers": {
                name: {
                    "instances": role.instances,
                    "memory": role.resources.memory,
                    "vcores": role.resources.vcores,
                    "gpus": role.resources.gpus,
                    "command": to_plain(spec.command_of(name)),
                    "program_environment": sorted(spec.env_of(name)),
                }
                for name, role in spec.effective_roles.items()
            },
        }

    async def submit(self, job: PreparedJob) -> None:
        await start_master(job.folder)

    def am_alive(self, folder: JobFolder) -> bool | None:
        try:
            return is_held(folder.am_lock)
        except FileNotFoundError:
            return False
        except OSError:
            return None

    async def sweep(self, folder: JobFolder) -> None:
        launched = read_launch_record(folder.remains)
        for _ in range(_KILL_ATTEMPTS):
            if await to_thread(end_job, folder.job_id, launched):
                break
        folder.remains.unlink(missing_ok=True)
        recorded, _ = read_settings(load_recorded_values(folder))
        for place in (recorded.ledger or DEFAULT_LEDGER, ledger.find_own_ledger(self._home)):
            ledger.tidy(place)


def _is_on_path(program: str) -> bool:
    import shutil  # late: it loads every compressor

    return shutil.which(program) is not None


def _check_interpreters(spec: JobSpec) -> list[Problem]:
    """Return interpreters given by name alone that the tasks, which inherit our PATH, would not find."""
    problems = []
    for name, role in spec.effective_roles.items():
        python = spec.python_of(name)
        if python and os.sep not in python and not _is_on_path(python):
            key = f"roles.{name}.python" if role.python else "python"
            message = "not found on PATH. Set its full path, or install it."
            problem = Problem(key=key, value=python, message=message)
            if problem not in problems:
                problems.append(problem)
    return problems
