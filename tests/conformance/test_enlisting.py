"""A scheduler of another package, whose executors enlist, keeps to the contract, with real processes.

It is installed by its entry point; its application master and executors run with tony's archive and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tony
from tests.support.plug_in import processes
from tests.support.waiting import wait_until
from tony.client.credential_creation import make_credentials
from tony.config.table.schema_tree import _add_plug_ins, schema
from tony.errors import SchedulerError
from tony.history.json_files import write_json
from tony.linux import process
from tony.model.codec import from_plain, to_plain
from tony.model.job_spec import SettingValue
from tony.model.states import JobState
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Assigned, Enlist
from tony.protocol.launch import AmCredentials, JobCredentials, TaskLaunch, TaskPart
from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection
from tony.rpc.server import RpcServer
from tony.schedulers import registry
from tony.schedulers.allocator_interface import ContainerAllocator
from tony.testing import allocator_bench, conformance, container_faults
from tony.testing.sample_jobs import build_prepared_job, build_two_roles

RECORDING = "tony.executor.container_main processes.recording:RecordingEnvironment"
FAULTS = (container_faults.SilentExecutor, container_faults.ContainerExitsBeforeRegistering)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(processes.FOLDER)
    schema.cache_clear()
    _add_plug_ins.cache_clear()  # another test of this process has searched before it was installed
    yield
    schema.cache_clear()
    _add_plug_ins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "processes"]:
        del sys.modules[name]


class EnlistingBench(allocator_bench.Bench):
    """One job, and a server that passes `Enlist` to its allocator as an application master does."""

    def __init__(self, folder: Path) -> None:
        settings: dict[str, SettingValue] = {"executor": RECORDING, "slots": 16}
        self.spec = replace(build_two_roles(), scheduler="processes", scheduler_settings=settings)
        self.job = build_prepared_job(folder / "home", self.spec)
        self.job_id = self.job.folder.job_id
        self.place = self.job.folder.path / "recorded"
        self.place.mkdir()
        self._credentials: JobCredentials = make_credentials(tls=False)
        write_json(self.job.folder.credentials, to_plain(self._credentials))
        self._module = sys.modules[type(registry.load("processes")).__module__]
        self._module.extract_runtime(self.job.home, self.job.folder)
        self.source = self._allocator()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: RpcServer | None = None

    def _allocator(self) -> ContainerAllocator:
        from processes.allocator import ProcessAllocator  # type: ignore[import-not-found]

        made: ContainerAllocator = ProcessAllocator(self.job)
        return made

    async def listen(self, name: str) -> None:
        self._server = RpcServer(self._credentials.am, self)
        address = await self._server.listen(f"unix:{self.job.folder.path / name}")
        write_json(self.job.folder.am, {"pid": os.getpid(), "host": "here", "attempt": 1, "address": address})

    async def stop(self) -> None:
        assert self._server
        for task in self._tasks:
            task.cancel()
        await self._server.close()

    def on_connected(self, connection: RpcConnection) -> None: ...

    def on_closed(self, connection: RpcConnection, reason: str) -> None: ...

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        assert isinstance(message, Enlist)
        task = asyncio.get_running_loop().create_task(self._enlist(connection, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _enlist(self, connection: RpcConnection, message: Enlist) -> None:
        try:
            connection.send(Assigned(launch=await self.source.enlist(message.container, message.process)))
        except SchedulerError as error:
            connection.refuse(Code.STALE, str(error))

    async def start_next_attempt(self) -> ContainerAllocator:
        self.source.abandon()  # type: ignore[attr-defined]
        await self.stop()
        self.source = self._allocator()
        await self.listen("next.sock")
        return self.source

    async def record(self, container: str) -> dict[str, Any]:
        await wait_until(lambda: (self.place / container).exists())
        found: dict[str, Any] = json.loads((self.place / container).read_bytes())
        return found

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        launch = from_plain(TaskLaunch, (await self.record(container))["launch"])
        return launch.task, launch.credentials

    async def is_alive(self, container: str) -> bool:
        path = self.place / container
        pids = json.loads(path.read_bytes())["pids"] if path.exists() else []
        return bool(process.with_marker(f"PROCESSES_CONTAINER={container}\0")) or any(map(process.is_alive, pids))

    async def end_executor(self, container: str) -> None:
        os.kill((await self.record(container))["pids"][0], signal.SIGTERM)

    async def crash_executor(self, container: str) -> None:
        (note,) = [path for path in (self.job.folder.path / "containers").iterdir() if path.name == container]
        os.kill(json.loads(note.read_bytes()), signal.SIGKILL)

    async def read_visible_data(self, container: str) -> str:
        return json.dumps((await self.record(container))["seen"])

    def make_room(self) -> None:
        (self.place / "silent").unlink()

    async def list_leftovers(self) -> Sequence[str]:
        found = process.with_marker(f"PROCESSES_JOB={self.job.folder.path}\0")
        return [*map(str, found), *map(str, self.job.folder.path.glob("containers/*"))]


@asynccontextmanager
async def bench(folder: Path, ordered: Sequence[container_faults.Fault]) -> AsyncIterator[EnlistingBench]:
    made = EnlistingBench(folder)
    for fault in ordered:
        if isinstance(fault, container_faults.SilentExecutor):
            (made.place / "silent").touch()
        if isinstance(fault, container_faults.ContainerExitsBeforeRegistering):
            (made.place / "exit").write_text(str(fault.exit_code))
    await made.listen("am.sock")
    try:
        yield made
    finally:
        await made.source.close()
        await made.stop()
        shutil.rmtree(made.job.folder.path / "runtime", ignore_errors=True)


@pytest.mark.parametrize("clause", conformance.clauses(FAULTS))
def test_contract(clause: str, tmp_path: Path) -> None:
    """Each clause holds; its docstring says which it is."""
    asyncio.run(conformance.check(clause, partial(bench, tmp_path)))


@pytest.mark.e2e
def test_a_whole_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a job file to the last line of output."""
    monkeypatch.setenv("TONY_HOME", str(tmp_path / "home"))
    lines = (
        'command = "echo from {index}, nice $(nice)"',
        'scheduler = "processes"',
        "[roles.worker]",
        "instances = 2",
    )
    (tmp_path / "job.toml").write_text("\n".join([*lines, "processes.nice = 1", ""]))
    job = tony.submit(tmp_path / "job.toml")
    report = job.wait()
    assert report.state is JobState.SUCCEEDED, report.failure
    outputs = sorted(path.read_text() for path in (tmp_path / "home/jobs" / job.id / "logs").glob("worker-*.out"))
    assert outputs == [f"from {index}, nice {os.nice(0) + 1}\n" for index in range(2)]
