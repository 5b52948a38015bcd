"""A container allocator under test: its inspection from outside, and what checks do with it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from tony.core.events import ContainerEnded, Event, Granted
from tony.errors import SchedulerError
from tony.model.job_spec import JobSpec
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.allocator_interface import ContainerAllocator
from tony.testing.container_faults import Fault
from tony.testing.sample_jobs import build_credentials, build_task_part

#: Timeout in seconds for expected events; generous, for slow machines.
TIMEOUT_SECONDS = 30.0
#: Seconds to wait for events that must not occur.
QUIET_SECONDS = 0.1

_E = TypeVar("_E", bound=Event)


class Bench(ABC):
    """One allocator under test, for the job `build_two_roles`, and its inspection from outside."""

    source: ContainerAllocator
    spec: JobSpec
    job_id: str

    @abstractmethod
    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        """Wait until the executor of a container has its launch data; return it."""

    @abstractmethod
    async def is_alive(self, container: str) -> bool:
        """Return True while any process of a launched container is alive."""

    @abstractmethod
    async def end_executor(self, container: str) -> None:
        """Make the executor exit with code 0, as when the AM releases it."""

    @abstractmethod
    async def crash_executor(self, container: str) -> None:
        """Kill the executor."""

    @abstractmethod
    async def read_visible_data(self, container: str) -> str:
        """Return what other users can see of a launched executor: arguments, environment."""

    def make_room(self) -> None:  # noqa: B027 - optional: room may become free by itself
        """End the shortage of `SlowContainer`, once it was observed, or the silence of `SilentExecutor`."""

    async def start_next_attempt(self) -> ContainerAllocator:
        """Return the allocator of the next AM attempt, after an AM that was killed. For enlisting schedulers only."""
        raise NotImplementedError

    @abstractmethod
    async def list_leftovers(self) -> Sequence[str]:
        """Return what is left after the allocator was closed: processes, files, claims."""


MakeBench = Callable[[Sequence[Fault]], AbstractAsyncContextManager[Bench]]


class BenchDriver:
    """Uses the allocator of a bench and waits for its events."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.source = bench.source
        self.events: list[Event] = []

    def find_events(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def wait_for_granted(self, number: int) -> list[Granted]:
        await self.wait_until(lambda: len(self.find_events(Granted)) >= number)
        return self.find_events(Granted)

    async def wait_for_ended(self, number: int) -> list[ContainerEnded]:
        await self.wait_until(lambda: len(self.find_events(ContainerEnded)) >= number)
        return self.find_events(ContainerEnded)

    async def launch(self, role: str, number: int) -> list[str]:
        """Launch executors of a role; return their containers."""
        self.source.set_demand(role, number)
        containers = [grant.container for grant in await self.wait_for_granted(number) if grant.role == role]
        for index, container in enumerate(containers):
            await self.source.launch(container, self.build_task(container, role, index), build_credentials())
        for container in containers:
            await self.bench.fetch_payload(container)
        return containers

    async def begin_launch(self) -> asyncio.Task[None]:
        """Begin to launch worker:0 in a container."""
        self.source.set_demand("worker", 1)
        (grant,) = await self.wait_for_granted(1)
        task = self.build_task(grant.container, "worker", 0)
        launching = asyncio.create_task(self.source.launch(grant.container, task, build_credentials()))
        await asyncio.sleep(0)
        return launching

    async def is_launch_refused(self, container: str) -> bool:
        """Return True if a launch of worker:0 in the container is refused."""
        try:
            await self.source.launch(container, self.build_task(container, "worker", 0), build_credentials())
        except SchedulerError:
            return True
        return False

    def build_task(self, container: str, role: str, index: int) -> TaskPart:
        return build_task_part(self.bench.spec, self.bench.job_id, container, role, index)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not condition():
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(
                f"the expected event did not arrive within {TIMEOUT_SECONDS:g} s; events: {self.events}"
            ) from None

    async def wait_quietly(self) -> None:
        """Wait for events that must not occur."""
        await asyncio.sleep(QUIET_SECONDS)
