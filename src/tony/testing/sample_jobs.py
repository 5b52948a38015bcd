"""Small jobs for tests of schedulers: prepared as by a client, with no staged files."""

from __future__ import annotations

import secrets
from pathlib import Path

from tony.model.job_spec import MIB, JobSpec, Resources, Role
from tony.model.staged_files import StagedJob
from tony.model.state_directory import Home
from tony.model.submission_record import RECORD_VERSION, JobRecord
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.client_interface import PreparedJob


def build_two_roles(**more: object) -> JobSpec:
    """Return the spec of a job of three workers and two ps, 16 MiB each.

    Args:
        more: further fields of the JobSpec.
    """
    resources = Resources(memory=16 * MIB)
    roles = {"worker": Role(instances=3, resources=resources), "ps": Role(instances=2, resources=resources)}
    return JobSpec(**{"name": "two roles", "command": "true", "roles": roles, **more})  # type: ignore[arg-type]


def build_prepared_job(home: Path, spec: JobSpec, job_id: str | None = None) -> PreparedJob:
    """Return a job as a submitter and a container allocator get it, with its directories created under `home`."""
    job_id = job_id or f"test-{secrets.token_hex(6)}"
    layout = Home(home)
    folder = layout.job(job_id)
    for path in (layout.cache, folder.logs, folder.work, folder.staged, folder.secret):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = JobRecord(
        version=RECORD_VERSION,
        job_id=job_id,
        user="tester",
        host="localhost",
        submitted=0.0,
        tony_version="0",
        spec=spec,
        staged=StagedJob(),
        framework_module="tony.frameworks.standalone:None",
    )
    return PreparedJob(home=layout, folder=folder, record=record)


def build_credentials() -> AmCredentials:
    """Return credentials with a new random token."""
    return AmCredentials(token=secrets.token_hex(32))


def build_task_part(spec: JobSpec, job_id: str, container: str, role: str, index: int) -> TaskPart:
    """Return the launch data that an AM sends to the executor of a task in session 1."""
    roles = spec.effective_roles
    return TaskPart(
        job_id=job_id,
        attempt=1,
        session=1,
        container=container,
        role=role,
        index=index,
        am_address="unix:/nowhere",
        framework_module="tony.frameworks.standalone:None",
        framework_path=None,
        command=spec.command_of(role) or "true",
        env=spec.env_of(role),
        instances={name: each.instances for name, each in roles.items()},
        procs={name: each.procs_per_task for name, each in roles.items()},
        chief=spec.chief,
        num_tasks=spec.tracked_count,
        memory=roles[role].resources.memory,
        gpus=roles[role].resources.gpus,
        wants_tb_port=False,
        port_range=None,
        stop_grace=1.0,
        lease=0.0,
        connect_timeout=5.0,
        job_settings=spec.program_settings,
        role_settings=roles[role].program_settings,
    )
