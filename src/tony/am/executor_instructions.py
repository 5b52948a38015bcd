"""Builds what the AM sends to executors: its part of a launch context, and the commands that start programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tony.core.actions import Launch, Start
from tony.errors import PlatformError, TonyError
from tony.frameworks.framework_interface import Framework
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.staged_files import Placement
from tony.model.submission_record import JobRecord
from tony.protocol.executor_messages import StartProgram
from tony.protocol.framing import encode_for_many
from tony.protocol.launch import TaskPart

#: Seconds for which an executor tries to reach an AM that is not known to be dead.
CONNECT_TIMEOUT_SECONDS = 60.0
#: Cached commands; others are encoded again.
_MAX_CACHED_FRAMES = 16


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
    with _name_adapter_in_errors(record):
        meeting = framework.choose_rendezvous(spec, task)
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
        chief=spec.chief,
        num_tasks=spec.tracked_count,
        memory=role.resources.memory if launch.memory is None else launch.memory,
        gpus=role.resources.gpus,
        wants_tb_port=task == board or changes,
        board=board if changes else None,
        port_range=spec.port_range_of(task.role),
        stop_grace=spec.stop_grace_of(task.role),
        lease=compute_am_lease(spec, lease),
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        meeting=meeting,
        left_out=record.staged.left_out,
        job_settings=spec.program_settings,
        role_settings=role.program_settings,
    )


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


class StartMessages:
    """The start commands of the newest session."""

    def __init__(self, record: JobRecord, framework: Framework, attempt: int) -> None:
        self._record = record
        self._framework = framework
        self._attempt = attempt
        self._session = 0
        self._shared: dict[int, Json] = {}
        self._extra: dict[int, dict[str, Any]] = {}
        self._addressed_roles = record.spec.addressed_roles
        self._frames: dict[tuple[object, ...], bytes] = {}

    def publish(self, spec: ClusterSpec) -> None:
        """Take a cluster spec and ask the framework's adapter for what its tasks need.

        Raises:
            PlatformError: the adapter failed.
        """
        self._enter(spec.session)
        job = self._record.spec.leave_out(spec.absent)
        if spec.absent:
            instances = {name: role.instances for name, role in job.effective_roles.items()}
            self._extra[spec.version] = {
                "absent": spec.absent,
                "instances": instances,
                "num_tasks": job.tracked_count,
            }
        addresses = {name: spec.roles[name][0] for name in sorted(self._addressed_roles) if spec.roles.get(name)}
        if addresses:
            self._extra.setdefault(spec.version, {})["addresses"] = addresses
        with _name_adapter_in_errors(self._record):
            self._shared[spec.version] = self._framework.build_shared(job, spec)

    def encode(self, start: Start) -> bytes:
        """Return the encoded command. It is not specific to one task, so all share the same bytes.

        Raises:
            ProtocolError: the adapter's value is too long for the wire.
        """
        self._enter(start.session)
        which = (start.version, start.try_, *start.variables.items())
        if which not in self._frames:
            if len(self._frames) >= _MAX_CACHED_FRAMES:  # a task may restart for weeks within one session
                self._frames.clear()
            self._frames[which] = encode_for_many(
                StartProgram(
                    attempt=self._attempt,
                    session=start.session,
                    try_=start.try_,
                    version=start.version,
                    shared=self._shared.get(start.version),
                    variables=start.variables,
                    **self._extra.get(start.version, {}),
                )
            )
        return self._frames[which]

    def _enter(self, session: int) -> None:
        """Forget older sessions, so that memory stays bounded."""
        if session > self._session:
            self._session = session
            self._shared.clear()
            self._extra.clear()
            self._frames.clear()


@contextlib.contextmanager
def _name_adapter_in_errors(record: JobRecord) -> Iterator[None]:
    """Name the framework's adapter in an unexpected error: it may be third-party."""
    try:
        yield
    except TonyError:
        raise
    except Exception as error:
        text = f"the framework adapter {record.framework_module} failed: {type(error).__name__}: {error}"
        raise PlatformError(text) from error
