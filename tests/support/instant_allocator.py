"""An AM whose scheduler grants each request at once; another process runs its fake executors.

Everything else is as in production: `module_command("instant_allocator", <job folder>)`.

To lose containers with their node, write their ids into the file `lost` of the job directory, one a line, and send
SIGUSR1. Later launches are appended to `launched` as container, task and first session: `c-1001 worker:7 2`.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence

from tony.am.main import run
from tony.core.events import ContainerEnded, Event, Granted
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, ContainerAllocator, KnownContainer, Sink
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import PreparedJob


class PromptSource(ContainerAllocator):
    """Containers that are granted at once and end when they are released. Nothing is launched in them."""

    capabilities = Capabilities(gang=False, same_host=True, same_folder=True)

    def __init__(self, job: PreparedJob) -> None:
        self._sink: Sink | None = None
        self._demand: Counter[str] = Counter()
        self._living: Counter[str] = Counter()
        self._roles: dict[str, str] = {}
        self._number = 0
        self._folder = job.folder.path
        self._told = False

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        self._sink = sink
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._lose)

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        return ()

    def set_demand(self, role: str, total: int) -> None:
        self._demand[role] = total
        self._grant(role)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        """Append the launch to `launched`, once containers have been lost; start no process."""
        if self._told:
            with (self._folder / "launched").open("a") as file:
                file.write(f"{container} {task.role}:{task.index} {task.session}\n")

    def release(self, container: str, timeout: float) -> None:
        self._end(container, "it was given back")

    def kill(self, container: str, reason: str) -> None:
        self._end(container, f"killed: {reason}")

    async def close(self) -> None:
        self._sink = None

    def _lose(self) -> None:
        self._told = True
        for container in (self._folder / "lost").read_text().split():
            self._end(container, "its node was lost", blameless=True)

    def _grant(self, role: str) -> None:
        while self._living[role] < self._demand[role]:
            self._living[role] += 1
            self._number += 1
            container = f"c-{self._number}"
            self._roles[container] = role
            self._emit(Granted(container=container, role=role, host="127.0.0.1"))

    def _end(self, container: str, cause: str, *, blameless: bool = False) -> None:
        role = self._roles.pop(container, None)
        if role is not None:
            self._emit(ContainerEnded(container=container, cause=cause, blameless=blameless))
            self._living[role] -= 1
            self._grant(role)

    def _emit(self, event: Event) -> None:
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)


def main() -> int:
    """Run one AM attempt; `sys.argv[1]` is the job directory."""
    return run(PromptSource)
