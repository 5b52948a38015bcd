"""Launch a task in its container: copy its files and start its executor."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from tony.linux import container_cgroup, process
from tony.model.ids import TaskId
from tony.model.staged_files import StagedRole
from tony.protocol.launch import AmCredentials, ContainerPart, LaunchContext, TaskPart
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.local.containers.cleanup import EXECUTOR_VARIABLE, PROGRAM_VARIABLE, build_marker
from tony.schedulers.local.containers.container_recovery import Launched, record_launch
from tony.schedulers.local.containers.fork_server import ForkServer
from tony.schedulers.local.containers.local_container import ExecutorProcess, LocalContainer, start_executor
from tony.storage.environments.localization import Interpreter, localize

#: Host name by which tasks of one machine reach each other.
HOST = "127.0.0.1"
#: `cpu.shares` of one vcore: the kernel's default for a process.
_SHARES_PER_VCORE = 1024

_log = logging.getLogger(__name__)


class TaskLauncher:
    """Launches tasks of one job, and records everything it starts for a later AM attempt.

    Args:
        command: argv of the executor.
    """

    def __init__(self, job: PreparedJob, server: ForkServer, command: Sequence[str]) -> None:
        self._job = job
        self._server = server
        self._command = command

    def prepare_work_dir(self, held: LocalContainer, task: TaskId) -> Interpreter:
        """Create a task's working directory and control group. Call it in a thread: archives are extracted."""
        folder = self._job.folder
        staged = self._job.record.staged.roles.get(task.role, StagedRole())
        markers = {PROGRAM_VARIABLE: build_marker(folder.job_id, held.id)}
        interpreter = localize(staged, self._job.home.cache, folder.work_of(task), markers)
        held.groups = container_cgroup.create(
            f"{folder.job_id}-{held.id}", held.resources.memory, held.resources.vcores * _SHARES_PER_VCORE
        )
        record_launch(folder.remains, groups=held.groups)
        return interpreter

    async def start(
        self,
        held: LocalContainer,
        task: TaskPart,
        credentials: AmCredentials,
        interpreter: Interpreter,
        *,
        inherited: Sequence[int],
        ended: Callable[[str], object],
    ) -> ExecutorProcess:
        """Start the executor.

        Args:
            interpreter: the result of `prepare_work_dir`.
            inherited, ended: as for `start_executor`.
        """
        folder = self._job.folder
        marker = build_marker(folder.job_id, held.id)
        part = ContainerPart(
            host=HOST,
            work_folder=str(folder.work_of(task.id)),
            log_folder=str(folder.logs),
            inherit_env=True,
            marker=f"{marker}{os.urandom(8).hex()}",
            python_path=interpreter.python_path,
            python_env=interpreter.python_env,
            gpu_devices=held.devices,
            cgroup=held.groups,
        )
        return await start_executor(
            self._server,
            self._command,
            LaunchContext(task=task, container=part, credentials=credentials),
            env={EXECUTOR_VARIABLE: marker},
            folder=folder.path,
            log=folder.executor_log(task.id),
            inherited=inherited,
            ended=ended,
        )

    def record_launch(self, held: LocalContainer, executor: ExecutorProcess) -> None:
        """Record the started executor."""
        file = self._job.folder.remains
        launched = Launched(
            container=held.id,
            role=held.role,
            pid=executor.pid,
            start=process.start_time(executor.pid) or 0,
            devices=held.devices,
            groups=held.groups,
        )
        try:
            record_launch(file, launched=launched)
        except OSError as error:
            # It runs, and is found through the event log, unless it has GPUs of its own.
            _log.warning("cannot record the started executor in %s: %s", file, error)
