"""Reattach containers of earlier AM attempts whose executors are still running.

The rest of what those left is killed by `orphan_cleanup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, takewhile
from pathlib import Path

from tony.linux import process
from tony.model.ids import TaskId
from tony.schedulers.allocator_interface import KnownContainer
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.local.containers import cleanup, executor_processes
from tony.schedulers.local.containers.cleanup import Launched, LaunchRecord
from tony.schedulers.local.containers.fork_server import ForkServer
from tony.schedulers.local.containers.local_container import ContainerStage, LocalContainer


class LocalContainerRecovery:
    """Reattaches containers.

    Args:
        server: reaps executors that it started; it did not start these.
        ended: called once for each container, on the running loop, with how its executor ended.
    """

    def __init__(self, job: PreparedJob, server: ForkServer, ended: Callable[[LocalContainer, str], object]) -> None:
        self._job = job
        self._server = server
        self._on_ended = ended

    @property
    def has_predecessors(self) -> bool:
        """True if there were earlier AM attempts: this one has its event log before the allocator is opened."""
        return self._job.folder.events(2).exists()

    def find_highest_number(self) -> int:
        """Return the highest number of a container granted to them. Blocks: it reads their logs."""
        return cleanup.find_highest_container_number(takewhile(Path.exists, map(self._job.folder.events, count(1))))

    def reattach(
        self, known: Iterable[KnownContainer], noted: LaunchRecord, supervisor: int
    ) -> Iterator[LocalContainer]:
        """Yield the containers whose executor is running.

        Args:
            supervisor: process that has become the executors' parent; 0 if it is not known.
        """
        launched = {held.container: held for held in noted.launched}
        for container in known:
            if container.task:
                held = self._reattach(
                    container,
                    container.task,
                    launched.get(container.id) or self._find_unrecorded(container, supervisor),
                )
                if held:
                    yield held

    def _reattach(self, known: KnownContainer, task: TaskId, launched: Launched | None) -> LocalContainer | None:
        if launched is None:
            return None
        resources = self._job.record.spec.effective_roles[known.role].resources
        held = LocalContainer(id=known.id, role=known.role, resources=resources, devices=launched.devices, adopted=True)
        held.groups, held.stage = launched.groups, ContainerStage.RUNNING
        held.executor = executor_processes.adopt(
            launched.pid,
            launched.start,
            self._server,
            self._job.folder.executor_log(task),
            lambda how: self._on_ended(held, how),
        )
        return held if held.executor else None

    def _find_unrecorded(self, known: KnownContainer, supervisor: int) -> Launched | None:
        """Return an executor known from the event log alone (the disk was full), if it certainly holds no GPU."""
        pid = known.executor_pid
        if pid is None or not supervisor or self._job.record.spec.effective_roles[known.role].resources.gpus:
            return None
        start = process.start_time(pid)
        if start is None or process.parent_of(pid) != supervisor:
            return None
        return Launched(container=known.id, role=known.role, pid=pid, start=start)
