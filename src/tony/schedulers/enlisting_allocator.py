"""The AM's half of schedulers whose executors start before they know their task, such as pods.

The command of such a container is fixed when it is requested. Its executor is given the container's id, connects to the
AM and sends `Enlist` (`enlisting_container`); the answer is what `ContainerAllocator.launch` has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tony.core.events import ContainerEnded
from tony.errors import SchedulerError
from tony.model.staged_files import StagedRole
from tony.protocol.launch import AmCredentials, TaskLaunch, TaskPart
from tony.schedulers.allocator_interface import ContainerAllocator, Sink
from tony.schedulers.client_interface import PreparedJob


@dataclass(slots=True, eq=False)
class _Container:
    """A container whose executor has enlisted, or will.

    Attributes:
        process: the executor's process, once it has enlisted.
        launch: its task, once it is known.
        enlisted: done when the executor was given its task, or the container has ended.
    """

    launch: asyncio.Future[TaskLaunch]
    enlisted: asyncio.Future[None]
    process: str = ""


class EnlistingAllocator(ContainerAllocator):
    """The half in the application master. A subclass calls `add_container` and `end_container`."""

    def __init__(self, job: PreparedJob) -> None:
        self._staged: Mapping[str, StagedRole] = job.record.staged.roles
        self._enlisting: dict[str, _Container] = {}

    def add_container(self, container: str) -> None:
        """Note a container that was granted, to this AM attempt or an earlier one. Its executor may enlist."""
        loop = asyncio.get_running_loop()
        self._enlisting.setdefault(container, _Container(loop.create_future(), loop.create_future()))

    def remove_container(self, container: str) -> None:
        """Forget a container that was never granted."""
        if held := self._enlisting.pop(container, None):
            held.launch.cancel()

    def end_container(self, event: ContainerEnded, sink: Sink) -> None:
        """Report the end of a container; `launch` waits for its executor no longer."""
        held = self._enlisting.pop(event.container, None)
        if held is None:
            return
        held.launch.cancel()
        if not held.enlisted.done():
            held.enlisted.set_result(None)
        sink(event)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        held = self._enlisting.get(container)
        if held is None:
            raise SchedulerError(f"container {container} has ended")
        if not held.launch.done():
            staged = self._staged.get(task.role, StagedRole())
            held.launch.set_result(TaskLaunch(task=task, credentials=credentials, staged=staged))
        await asyncio.shield(held.enlisted)

    async def enlist(self, container: str, process: str) -> TaskLaunch:
        held = self._enlisting.get(container)
        if held is None:
            raise SchedulerError(f"no executor is expected in container {container}")
        if held.process not in ("", process):
            raise SchedulerError(f"another process is the executor in container {container}")
        held.process = process
        try:
            launch = await asyncio.shield(held.launch)
        except asyncio.CancelledError:
            if not held.launch.cancelled():  # this call was cancelled
                raise
            raise SchedulerError(f"container {container} has ended") from None
        self.on_attached(container)
        return launch

    def on_attached(self, container: str) -> None:
        held = self._enlisting.get(container)
        if held and not held.enlisted.done():
            held.enlisted.set_result(None)
