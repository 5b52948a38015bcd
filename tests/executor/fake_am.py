"""An application master that does what a test tells it: real sockets and frames, no decisions of its own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.support.waiting import block_until
from tony.am.reattach_caller import call_executors
from tony.client.credential_creation import make_credentials
from tony.isolated_interpreter import command
from tony.linux import process
from tony.model.codec import to_plain
from tony.model.executor_settings import JobProgramSettings, RoleProgramSettings
from tony.model.ids import TaskId
from tony.protocol.executor_messages import Ack, Attach, Heartbeat, Reported, StartProgram, Welcome
from tony.protocol.launch import ContainerPart, JobCredentials, LaunchContext, TaskPart
from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection
from tony.rpc.server import RpcServer

#: Seconds until something that a test waits for counts as never happening; the machine may be busy.
PATIENCE = 30.0

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class Master:
    """Listens, welcomes, acknowledges, remembers."""

    def __init__(
        self,
        folder: Path,
        attempt: int = 1,
        interval: float = 0.1,
        *,
        tls: bool = False,
        secret: JobCredentials | None = None,
    ) -> None:
        self.secret = secret = secret or make_credentials(tls=tls)
        self._own_credentials = secret.am
        self.credentials = secret.executors
        self.address = "tls:127.0.0.1:0" if tls else f"unix:{folder}/am.sock"
        self.attempt = attempt
        self.acknowledges = True
        self.answers = True
        self.sample_interval = 0.0
        self.messages: list[Message] = []
        self.connections = 0
        self.closed_count = 0
        self._interval = interval
        self._senders: dict[int, RpcConnection] = {}
        self._acked = 0
        self._connection: RpcConnection | None = None
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._server: RpcServer | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.listen()

    # --- what a test does -----------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Begins to listen, anew if it had stopped."""

        async def begin() -> None:
            self._server = RpcServer(self._own_credentials, self)
            self.address = await self._server.listen(self.address)

        self._run(begin())

    def stop_listening(self) -> None:
        """Die, as far as executors can tell: no connection, no listener."""

        async def end() -> None:
            if self._server:
                await self._server.close()
                self._server = None

        self.drop()
        self._run(end())

    def drop(self) -> None:
        with self._changed:
            connection, self._connection = self._connection, None
        if connection:
            self._loop.call_soon_threadsafe(connection.abort)

    def connection(self) -> RpcConnection:
        assert self._connection is not None, "no executor is attached"
        return self._connection

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    def send(self, message: Message) -> None:
        self.call(self.connection().send, message)

    def start(self, session: int = 1, try_: int = 1, shared: object = None) -> None:
        attempt = self.attempt
        self.send(StartProgram(attempt=attempt, session=session, try_=try_, version=1, shared=shared))

    def summon(self, where: str, address: str | None = None) -> bool:
        """Calls an executor; answers whether it comes."""
        return self._run(call_executors(where, self._own_credentials, self.attempt, address or self.address))

    def wait(self, kind: type[M], match: Callable[[M], bool] = lambda message: True) -> M:
        """The first message of a kind that matches, once it is there."""

        def find() -> M | None:
            return next((each for each in self.messages if isinstance(each, kind) and match(each)), None)

        return self.until(find)

    def until(self, condition: Callable[[], T | None]) -> T:
        """What a condition answers, once that is true."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not (found := condition()):
                left = deadline - time.monotonic()
                assert left > 0, f"it did not happen; what came: {self.messages[-20:]}"
                self._changed.wait(min(left, 0.05))
            return found

    def sender(self, message: Message) -> RpcConnection:
        """The connection on which a message came."""
        return self._senders[id(message)]

    def all(self, kind: type[M]) -> list[M]:
        """All messages of a kind so far."""
        with self._changed:
            return [each for each in self.messages if isinstance(each, kind)]

    def close(self) -> None:
        self.stop_listening()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # --- what its server tells it ---------------------------------------------------------------------------------

    def on_connected(self, connection: RpcConnection) -> None:
        """A connection has presented the token."""

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self._senders[id(message)] = connection
            if isinstance(message, Attach):
                self.connections += 1
                self._connection = connection
                connection.send(
                    Welcome(
                        attempt=self.attempt,
                        heartbeat_interval=self._interval,
                        acked=self._acked,
                        sample_interval=self.sample_interval,
                    )
                )
            elif isinstance(message, Reported) and self.acknowledges:
                self._acked = max(self._acked, message.n)
                connection.send(Ack(n=self._acked))
            elif isinstance(message, Heartbeat) and message.asks and self.answers:
                connection.send(Ack(n=self._acked, heard=message.mono))
            self._changed.notify_all()

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        with self._changed:
            self.closed_count += 1
            if self._connection is connection:
                self._connection = None
            self._changed.notify_all()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


class Guest:
    """A real executor in a process of its own, and what becomes of it. Leaves nothing behind."""

    def __init__(self, context: LaunchContext, module: str = "tony.executor.main", *arguments: str) -> None:
        self.context = context
        self.logs = Path(context.container.log_folder)
        self.marker = f"TONY_TASK={context.container.marker}"
        self.process = subprocess.Popen(
            command(module, *arguments), stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(to_plain(context)).encode())
        self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        """What the executor said in its own log."""
        task = self.context.task
        return (self.logs / f"{task.role}-{task.index}.executor.log").read_text()

    def read(self, name: str) -> str:
        """The content of a log file of the program."""
        return (self.logs / name).read_text()

    def has_printed(self, name: str, text: str) -> bool:
        """Whether this is all that its program has printed: False also while the file is not there."""
        return (self.logs / name).exists() and self.read(name) == text

    def watchdog(self) -> int:
        """The pid of its watchdog: the one below it that runs our code."""
        return block_until(lambda: next((pid for pid in process.descendants(self.pid) if _is_ours(pid)), None))

    def programs(self) -> list[int]:
        return process.with_marker(self.marker)

    def wait(self) -> int:
        """The exit code of the executor, once it has ended."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Guest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        process.sweep(self.marker)
        if self.process.stderr:
            self.process.stderr.close()


def context(master: Master, folder: Path, command: str | tuple[str, ...] = "true", **more: Any) -> LaunchContext:
    """What an executor of `worker:0` is told.

    Args:
        more: fields of TaskPart, of its settings or of ContainerPart that shall be different.
    """
    work = folder / "work"
    work.mkdir(exist_ok=True)
    task: dict[str, Any] = {
        "job_id": f"test-{os.getpid()}",
        "attempt": 1,
        "session": 1,
        "container": "c-1",
        "role": "worker",
        "index": 0,
        "am_address": master.address,
        "framework_module": "tony.frameworks.no_framework:NoFramework",
        "framework_path": None,
        "command": command,
        "env": {},
        "instances": {"worker": 1},
        "procs": {"worker": 1},
        "chief": TaskId("worker", 0),
        "num_tasks": 1,
        "memory": 0,
        "gpus": 0,
        "wants_tb_port": False,
        "port_range": None,
        "stop_grace": 5.0,
        "lease": 0.0,
        "connect_timeout": 20.0,
        "meeting": None,
    }
    job: dict[str, Any] = {"log_limit": 1 << 20, "python_stacks": False}
    role: dict[str, Any] = {}
    container: dict[str, Any] = {
        "host": "127.0.0.1",
        "work_folder": str(work),
        "log_folder": str(folder / "logs"),
        "inherit_env": True,
        "marker": f"test-{os.getpid()}/c-1/{secrets.token_hex(8)}",
    }
    for name, value in more.items():
        if name in JobProgramSettings.__dataclass_fields__:
            job[name] = value
        elif name in RoleProgramSettings.__dataclass_fields__:
            role[name] = value
        else:
            (task if name in task else container)[name] = value
    task |= {"job_settings": JobProgramSettings(**job), "role_settings": RoleProgramSettings(**role)}
    return LaunchContext(task=TaskPart(**task), container=ContainerPart(**container), credentials=master.credentials)


def _is_ours(pid: int) -> bool:
    try:
        return b"tony.executor." in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
