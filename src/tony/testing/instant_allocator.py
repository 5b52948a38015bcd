"""An application master whose scheduler grants at once what is asked for; its executors are played elsewhere.

Everything else is as in production: `bootstrap.command("tony.testing.instant_allocator", <job folder>)`.

Whoever plays writes the containers that are to be lost with their node into the file `lost` of the job's folder, one a
line, and sends SIGUSR1. Which task got which container from then on stands in `launched`: `c-1001 worker:7 2`, with the
session in which it begins.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence

from tony.am.main import run
from tony.core.events import ContainerEnded, Event, Granted
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.interface import Capabilities, ContainerAllocator, KnownContainer, PreparedJob, Sink


class PromptSource(ContainerAllocator):
    """Containers that are there at once and end when they are given back. Nothing is launched in them."""

    capabilities = Capabilities(
        gang=False, recover=False, gpus=True, same_host=True, inherits_environment=True, log_files=True
    )

    def __init__(self, job: PreparedJob) -> None:
        self._sink: Sink | None = None
        self._demand: Counter[str] = Counter()
        self._living: Counter[str] = Counter()
        self._roles: dict[str, str] = {}
        self._number = 0
        self._folder = job.folder.path
        self._told = False

    async def open(self, sink: Sink) -> None:
        self._sink = sink
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._lose)

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        return ()

    def set_demand(self, role: str, total: int) -> None:
        self._demand[role] = total
        self._grant(role)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        """Whoever plays the executor knows by himself what to say, and, but for the first ones, is told who he is."""
        if self._told:
            with (self._folder / "launched").open("a") as file:
                file.write(f"{container} {task.role}:{task.index} {task.session}\n")

    def release(self, container: str, patience: float) -> None:
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
    """Runs one attempt; `sys.argv[1]` is the job's folder."""
    return run(PromptSource)
