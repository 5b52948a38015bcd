"""A deterministic scheduler in memory, with fault injection. It passes the conformance suite of the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tony.core.events import ContainerEnded, Event, Granted, Queued, Unsatisfiable
from tony.errors import SchedulerError
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, ContainerAllocator, KnownContainer, Sink
from tony.schedulers.capabilities import Capabilities
from tony.testing.container_faults import (
    ContainerExitsBeforeRegistering,
    Fault,
    LostAnswer,
    LostContainer,
    RefusedContainer,
    SlowContainer,
)

#: Called with each launch, so that a test can run a fake executor.
Launched = Callable[[str, TaskPart, AmCredentials], object]


@dataclass(slots=True, kw_only=True)
class FakeContainer:
    """One running container.

    Attributes:
        number: counted from 1.
        is_reported: whether its grant was reported.
        task: what was launched in it, or None.
    """

    id: str
    number: int
    role: str
    is_reported: bool = False
    task: TaskPart | None = None
    credentials: AmCredentials | None = None
    timer: asyncio.TimerHandle | None = None


class FakeAllocator(ContainerAllocator):
    """Containers that exist in memory only. The `launched` callback runs the fake executors.

    Args:
        faults: the faults to inject, at most one for each container.
        limits: role -> maximum number of containers; a larger demand is answered with Unsatisfiable.
        launched: called with each launch.

    Attributes:
        containers: id -> running container.
        log: every call that changes the state, in order, as text: `launch c-1 worker:0`.
    """

    capabilities = Capabilities(gang=False, same_host=True, same_folder=True)

    def __init__(
        self,
        *,
        faults: Sequence[Fault] = (),
        limits: Mapping[str, int] | None = None,
        host: str = "127.0.0.1",
        launched: Launched = lambda container, task, credentials: None,
    ) -> None:
        self.containers: dict[str, FakeContainer] = {}
        self.log: list[str] = []
        self._faults = {fault.container: fault for fault in faults}
        self._limits = limits
        self._host = host
        self._launched = launched
        self._sink: Sink | None = None
        self._demand: dict[str, int] = {}
        self._memory: dict[str, int] = {}
        self._number = 0
        self._queued = False

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        if self._sink is None:
            self._sink = sink

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        """Keep the containers in which an executor was launched; drop the others."""
        names = {container.id for container in known}
        for held in [held for held in self.containers.values() if held.task is None or held.id not in names]:
            if held.timer:
                held.timer.cancel()
            del self.containers[held.id]
        return list(self.containers)

    def successor(self) -> FakeAllocator:
        """Return the allocator that the next AM attempt gets after the one that had this allocator died."""
        self._sink = None
        later = FakeAllocator(limits=self._limits, host=self._host, launched=self._launched)
        later.containers, later.log, later._number = self.containers, self.log, self._number
        return later

    def set_memory(self, role: str, memory: int) -> None:
        self.log.append(f"memory {role} {memory}")
        self._memory[role] = memory

    def set_demand(self, role: str, total: int) -> None:
        self.log.append(f"demand {role} {total}")
        if self._limits is not None and total > self._limits.get(role, 0):
            self._emit(Unsatisfiable(role=role, reason=f"{total} of {role} exceeds the limit"))
            return
        self._demand[role] = total
        self._withdraw_untold(role)
        for container in self.containers.values():
            if container.role == role and isinstance(self._faults.get(container.number), LostAnswer):
                self._tell_granted(container)
        self._fill(role)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        held = self.containers.get(container)
        if held is None:
            raise SchedulerError(f"container {container} has ended")
        if held.task is not None:
            return
        self.log.append(f"launch {container} {task.id}")
        held.task, held.credentials = task, credentials
        fault = self._faults.get(held.number)
        if isinstance(fault, RefusedContainer):
            self._forget(held)
            raise SchedulerError(f"container {container} was refused: injected fault")
        self._launched(container, task, credentials)
        loop = asyncio.get_running_loop()
        if isinstance(fault, LostContainer):
            held.timer = loop.call_later(fault.delay, self._lose, container)
        elif isinstance(fault, ContainerExitsBeforeRegistering):
            loop.call_soon(self.end, container, f"its executor ended with exit code {fault.exit_code}")

    def release(self, container: str, timeout: float) -> None:
        held = self.containers.get(container)
        if held is None:
            return
        self.log.append(f"release {container}")
        if held.task is None or timeout <= 0:
            self.end(container, "it was released")
            return
        loop = asyncio.get_running_loop()
        if held.timer is None or loop.time() + timeout < held.timer.when():
            if held.timer:
                held.timer.cancel()
            cause = f"it was released, and its executor did not exit within {timeout:g} s"
            held.timer = loop.call_later(timeout, self.end, container, cause)

    def kill(self, container: str, reason: str) -> None:
        if container in self.containers:
            self.log.append(f"kill {container}")
            self.end(container, f"killed: {reason}")

    async def close(self) -> None:
        self._sink = None
        for held in self.containers.values():
            if held.timer:
                held.timer.cancel()
        self.containers.clear()
        self._demand.clear()

    def end(self, container: str, cause: str, *, blameless: bool = False) -> None:
        """End a container from a test: its executor exited, or its node was lost."""
        held = self.containers.get(container)
        if held:
            self._emit(ContainerEnded(container=container, cause=cause, blameless=blameless))
            self._forget(held)

    def _lose(self, container: str) -> None:
        self.end(container, "its node was lost", blameless=True)

    def _forget(self, held: FakeContainer) -> None:
        if held.timer:
            held.timer.cancel()
        del self.containers[held.id]
        self._fill(held.role)

    def _withdraw_untold(self, role: str) -> None:
        """Withdraw unanswered requests above a lower total, the newest first."""
        living = [held for held in self.containers.values() if held.role == role]
        surplus = len(living) - self._demand[role]
        for held in [held for held in reversed(living) if not held.is_reported][: max(surplus, 0)]:
            if held.timer:
                held.timer.cancel()
            del self.containers[held.id]
        self._note_queue()

    def _fill(self, role: str) -> None:
        living = sum(held.role == role for held in self.containers.values())
        for _ in range(self._demand.get(role, 0) - living):
            self._number += 1
            held = FakeContainer(id=f"c-{self._number}", number=self._number, role=role)
            self.containers[held.id] = held
            fault = self._faults.get(held.number)
            if isinstance(fault, SlowContainer):
                held.timer = asyncio.get_running_loop().call_later(fault.delay, self._tell_granted, held)
            elif not isinstance(fault, LostAnswer):
                self._tell_granted(held)
        self._note_queue()

    def _tell_granted(self, held: FakeContainer) -> None:
        if not held.is_reported:
            held.is_reported, held.timer = True, None
            self._note_queue()
            memory = self._memory.get(held.role)
            self._emit(Granted(container=held.id, role=held.role, host=self._host, memory=memory))

    def _note_queue(self) -> None:
        slow = [held for held in self.containers.values() if not held.is_reported and held.timer]
        if bool(slow) != self._queued:
            self._queued = bool(slow)
            self._emit(Queued(reason=f"no room for {len(slow)} containers: injected fault" if slow else ""))

    def _emit(self, event: Event) -> None:
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)
