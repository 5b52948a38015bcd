"""The application master's half: a process per container, found again by its pid and a variable."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tony.core.events import ContainerEnded, Event, Granted, Unsatisfiable
from tony.linux import process
from tony.model.failure import ClusterKill
from tony.protocol.launch import AmCredentials, TaskPart
from tony.schedulers.allocator_interface import NOT_LISTENING, AmAddresses, KnownContainer, Sink
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.enlisting_allocator import EnlistingAllocator

from .capabilities import CAPABILITIES
from .scheduler import command, start
from .settings import EXECUTOR


@dataclass(slots=True, eq=False)
class Container:
    """One process, and everything that it starts."""

    id: str
    role: str
    pid: int
    descriptor: int
    is_launched: bool = False
    reason: str = ""
    due: float = float("inf")
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class ProcessAllocator(EnlistingAllocator):
    capabilities = CAPABILITIES
    host = "127.0.0.1"

    def __init__(self, job: PreparedJob) -> None:
        super().__init__(job)
        self._folder, self._spec = job.folder, job.record.spec
        self._settings = job.record.spec.scheduler_settings
        self._notes = job.folder.path / "containers"
        self._sink: Sink | None = None
        self._demand: Counter[str] = Counter()
        self._living: dict[str, Container] = {}

    async def open(self, sink: Sink, addresses: AmAddresses = NOT_LISTENING) -> None:
        self._notes.mkdir(exist_ok=True)
        self._sink = self._sink or sink

    async def recover(self, known: Sequence[KnownContainer]) -> Sequence[str]:
        roles = {each.id: each for each in known}
        for note in self._notes.iterdir():
            pid = json.loads(note.read_bytes())
            if (
                note.name in roles
                and note.name not in self._living
                and process.has_marker(pid, self._marker(note.name))
            ):
                held = self._watch(note.name, roles[note.name].role, pid)
                held.is_launched = roles[note.name].task is not None
        return [name for name in self._living if name in roles]

    def set_demand(self, role: str, total: int) -> None:
        slots = self._settings.get("slots", 16)
        if total > int(str(slots)):
            return self._emit(Unsatisfiable(role=role, reason=f"there are {slots} slots"))
        self._demand[role] = total
        self._refill(role)

    async def launch(self, container: str, task: TaskPart, credentials: AmCredentials) -> None:
        if container in self._living:
            self._living[container].is_launched = True
        await super().launch(container, task, credentials)

    def release(self, container: str, timeout: float) -> None:
        held = self._living.get(container)
        if held is None:
            return
        wait = timeout if held.is_launched else 0.0
        loop = asyncio.get_running_loop()
        held.timers.append(loop.call_later(wait, self.kill, container, "it did not exit after its release"))

    def kill(self, container: str, reason: str) -> None:
        held = self._living.get(container)
        if held is not None:
            held.reason = held.reason or f"killed: {reason}"
            process.send(held.pid, signal.SIGKILL)

    async def close(self) -> None:
        self._sink = None
        for held in list(self._living.values()):
            self.kill(held.id, "the job has ended")
        while self._living:
            await asyncio.sleep(0.01)
        for name in ("containers", "runtime"):
            shutil.rmtree(self._folder.path / name, ignore_errors=True)

    def abandon(self) -> None:
        """Do what the death of the application master does: containers stay."""
        self._sink = None
        for held in self._living.values():
            asyncio.get_running_loop().remove_reader(held.descriptor)
            os.close(held.descriptor)
        self._living.clear()

    def _refill(self, role: str) -> None:
        settings = self._spec.effective_roles[role].scheduler_settings.get("processes", {})
        while sum(held.role == role for held in self._living.values()) < self._demand[role]:
            names = (f"{self._folder.job_id}-{number}" for number in itertools.count(1))
            container = next(name for name in names if not (self._notes / name).exists())
            program = str(self._settings.get("executor", EXECUTOR))
            output = self._folder.logs / f"{container}.log"
            pid = start(self._folder, command(program), {"PROCESSES_CONTAINER": container}, output)
            os.setpriority(os.PRIO_PROCESS, pid, int(str(settings.get("nice", 0))))
            (self._notes / container).write_text(json.dumps(pid))
            self._watch(container, role, pid)
            self._emit(Granted(container=container, role=role, host=self.host))

    def _watch(self, container: str, role: str, pid: int) -> Container:
        held = Container(container, role, pid, os.pidfd_open(pid))
        self._living[container] = held
        self.add_container(container)
        asyncio.get_running_loop().add_reader(held.descriptor, self._on_exit, held)
        return held

    def _on_exit(self, held: Container) -> None:
        asyncio.get_running_loop().remove_reader(held.descriptor)
        os.close(held.descriptor)
        cause = held.reason or "its executor has ended"
        with contextlib.suppress(ChildProcessError):  # the child of an earlier application master
            status = os.waitpid(held.pid, 0)[1]
            code = os.waitstatus_to_exitcode(status)
            cause = held.reason or f"its executor ended with exit code {code}"
        for timer in held.timers:
            timer.cancel()
        process.sweep(self._marker(held.id).decode())
        del self._living[held.id]
        ended = ContainerEnded(container=held.id, cause=cause, kill=ClusterKill.OTHER if held.reason else None)
        self.end_container(ended, self._emit)
        if self._sink:
            self._refill(held.role)

    def _marker(self, container: str) -> bytes:
        return f"PROCESSES_CONTAINER={container}\0".encode()

    def _emit(self, event: Event) -> None:
        asyncio.get_running_loop().call_soon(self._tell, event)

    def _tell(self, event: Event) -> None:
        if self._sink:
            self._sink(event)
