"""What earlier application masters of a job have left and this one goes on with: containers whose executors live.

What of theirs is not adopted is ended: `orphan_cleanup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, takewhile
from pathlib import Path

from tony.linux import process
from tony.model.ids import TaskId
from tony.schedulers.interface import KnownContainer, PreparedJob
from tony.schedulers.local import cleanup, executor_processes
from tony.schedulers.local.cleanup import Launched, LaunchRecord
from tony.schedulers.local.container import ContainerStage, LocalContainer
from tony.schedulers.local.fork_server import ForkServer


class Adoption:
    """Takes containers over.

    Args:
        server: waits for the end of executors that are its own; these are not.
        ended: called once for each, on the running loop, with how its executor ended.
    """

    def __init__(self, job: PreparedJob, server: ForkServer, ended: Callable[[LocalContainer, str], object]) -> None:
        self._job = job
        self._server = server
        self._ended = ended

    @property
    def has_predecessors(self) -> bool:
        """Whether there were earlier application masters: ours has its event log before the source is opened."""
        return self._job.folder.events(2).exists()

    def highest_number(self) -> int:
        """The highest number of a container that they were granted. Blocks: it reads their logs."""
        return cleanup.highest(takewhile(Path.exists, map(self._job.folder.events, count(1))))

    def adopt(self, known: Iterable[KnownContainer], noted: LaunchRecord, supervisor: int) -> Iterator[LocalContainer]:
        """Takes those over in which an executor lives.

        Args:
            supervisor: whose children their executors have become; 0 if that is nobody of ours.
        """
        launched = {held.container: held for held in noted.launched}
        for each in known:
            if each.task:
                held = self._adopt(each, each.task, launched.get(each.id) or self._unnoted(each, supervisor))
                if held:
                    yield held

    def _adopt(self, known: KnownContainer, task: TaskId, launched: Launched | None) -> LocalContainer | None:
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
            lambda how: self._ended(held, how),
        )
        return held if held.executor else None

    def _unnoted(self, known: KnownContainer, supervisor: int) -> Launched | None:
        """An executor of which only the event log knows: the disk was full. What it holds is known if it has no GPU."""
        pid = known.executor_pid
        if pid is None or not supervisor or self._job.record.spec.effective_roles[known.role].resources.gpus:
            return None
        start = process.start_time(pid)
        if start is None or process.parent_of(pid) != supervisor:
            return None
        return Launched(container=known.id, role=known.role, pid=pid, start=start)
