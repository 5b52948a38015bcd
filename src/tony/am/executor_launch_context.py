"""Builds the AM's part of an executor's launch context, with its lease; describes the container's setup for users."""

from __future__ import annotations

from tony.core.actions import Launch
from tony.errors import PlatformError, TonyError
from tony.frameworks.base import Framework
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import RendezvousKind
from tony.model.staged_files import Placement
from tony.model.submission_record import JobRecord
from tony.protocol.launch import TaskPart

#: Seconds for which an executor tries to reach an AM that is not known to be dead.
CONNECT_TIMEOUT_SECONDS = 60.0


def build_task_part(
    record: JobRecord, framework: Framework, attempt: int, launch: Launch, address: str, lease: float
) -> TaskPart:
    """Return the task's part of a launch context.

    Args:
        lease: the scheduler's, where the job does not set one.

    Raises:
        PlatformError: the framework's adapter failed.
    """
    spec, task = record.spec, launch.task
    role = spec.effective_roles[task.role]
    command = spec.command_of(task.role)
    board = spec.tensorboard_task
    # In an elastic role any task may be the first one of some session.
    changes = board is not None and board.role == task.role and role.min_instances is not None
    return TaskPart(
        job_id=record.job_id,
        attempt=attempt,
        session=launch.session,
        container=launch.container,
        role=task.role,
        index=task.index,
        am_address=address,
        framework_module=record.framework_module,
        framework_path=record.framework_path,
        command=command if command is not None else "",
        env=spec.env_of(task.role),
        instances={name: r.instances for name, r in spec.effective_roles.items()},
        procs={name: r.procs_per_task for name, r in spec.effective_roles.items()},
        chief=str(spec.chief) if spec.chief else None,
        num_tasks=spec.tracked_count,
        memory=role.resources.memory,
        gpus=role.resources.gpus,
        wants_tb_port=task == board or changes,
        board=str(board) if changes else None,
        port_range=spec.port_range_of(task.role),
        stop_grace=spec.stop_grace_of(task.role),
        lease=compute_am_lease(spec, lease),
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        meeting=_find_rendezvous(record, framework, task),
        left_out=record.staged.left_out,
        job_settings=spec.program_settings,
        role_settings=role.program_settings,
    )


def _find_rendezvous(record: JobRecord, framework: Framework, task: TaskId) -> RendezvousKind | None:
    try:
        return framework.choose_rendezvous(record.spec, task)
    except TonyError:
        raise
    except Exception as error:  # the adapter may be third-party: name it
        text = f"the framework adapter {record.framework_module} failed: {type(error).__name__}: {error}"
        raise PlatformError(text) from error


def build_container_setup(record: JobRecord, role: str) -> str:
    """Return, for users, what happens in a task's container before its executor starts."""
    staged = record.staged.roles.get(role)
    unpacks = staged is not None and any(item.placement is Placement.PYTHON for item in staged.items)
    return "unpacking the Python environment" if unpacks else "copying its files"


def compute_am_lease(spec: JobSpec, lease: float) -> float:
    """Return for how many seconds programs outlive their AM."""
    return lease if spec.orphan_grace is None else spec.orphan_grace


def compute_executor_lease(spec: JobSpec, lease: float) -> float:
    """Return after how many seconds without an AM an executor has certainly given up."""
    return max(compute_am_lease(spec, lease), CONNECT_TIMEOUT_SECONDS)
