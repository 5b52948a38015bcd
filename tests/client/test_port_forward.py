"""Where a proxy listens: at the task's own port where that suits, at any other where it does not."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mention_each
from tests.jobs.fake_am import JOB, FakeAm, recorded, standing, succeeded
from tony.client.port_forward import PortForward, open_proxy
from tony.errors import UserError
from tony.history.job_record import write_summary
from tony.jobs.tunnel_client import is_answering
from tony.model.ids import TaskId
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.protocol.message_base import Message
from tony.protocol.tunnel_messages import OpenTunnel, TunnelFailed
from tony.rpc.connection import RpcConnection

WORKER = TaskId("worker", 0)
#: No user of this machine.
OTHER_USER = 12345


class Refusing(FakeAm):
    """Every tunnel comes to nothing."""

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        if isinstance(message, OpenTunnel):
            connection.send(TunnelFailed(reason=f"nothing listens at {message.port} of {message.task}"))
        else:
            super().on_message(connection, message)


def free_port() -> int:
    """A port that is free and outside the kernel's ephemeral range."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(20_000, 32_000))) as probe:
            return int(probe.getsockname()[1])


def running_on(home: Home, host: str) -> Refusing:
    """The AM of a job whose tasks run on some host."""
    folder, record = recorded(home)
    report = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    return Refusing(folder, replace(report, tasks=tuple(replace(task, host=host) for task in report.tasks)))


async def place(home: Home, far: int, port: int | None = None) -> int:
    """Where a proxy to worker:0 listens; it is closed again."""
    async with await open_proxy(home, JOB, "worker:0", far, print, port=port) as proxy:
        assert (proxy.task, proxy.place) == (WORKER, f"127.0.0.1:{proxy.port}")
        return proxy.port


async def test_a_remote_tasks_port_is_used_here_too(home: Home) -> None:
    """The program prints that port to its users; if it is taken here, another one is used."""
    async with running_on(home, "192.0.2.7"):
        far = free_port()
        assert await place(home, far) == far
        with socket.create_server(("127.0.0.1", far)):
            assert await place(home, far) != far
            with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{far}: Address already in use"):
                await place(home, 8888, far)
        assert await place(home, 80) != 80
        assert await place(home, 8888, far) == far
        assert await place(home, 0) not in (0, far)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", socket.gethostname()])
async def test_the_port_of_a_task_here(home: Home, host: str) -> None:
    async with running_on(home, host):
        far = free_port()
        assert await place(home, far) != far
        with pytest.raises(UserError, match=f"port {far} of this machine is used by worker:0"):
            await place(home, far, far)


async def test_a_failed_connection(home: Home) -> None:
    """It is reset, and the reason is reported once; the proxy continues."""
    told: list[str] = []
    async with running_on(home, "192.0.2.7"):
        assert not await is_answering(home.job(JOB), WORKER, 8888)
        async with await open_proxy(home, JOB, "worker:0", 8888, told.append) as proxy:
            for _ in range(3):
                reader, writer = await asyncio.open_connection(proxy.address, proxy.port)
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.close()
        assert told == ["nothing listens at 8888 of worker:0"]


def test_without_a_master(tmp_path: Path) -> None:
    """Connections before the AM is up, or after it has gone, get a message."""
    folder, record = recorded(Home(tmp_path))
    told: list[str] = []

    async def story() -> None:
        async with PortForward(folder, WORKER, 0, told.append) as proxy:
            await proxy.listen("127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(proxy.address, proxy.port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    asyncio.run(story())
    assert mention_each(told, (f"job {JOB}", "running"))
    write_summary(folder, succeeded(folder, record))
    with pytest.raises(UserError, match="cannot forward to an ended job: job "):
        asyncio.run(open_proxy(Home(tmp_path), JOB, "worker:0", 0, print))
    with pytest.raises(UserError, match="role worker has 2 tasks; name one of them: worker:0"):
        asyncio.run(open_proxy(Home(tmp_path), JOB, "worker", 0, print))


@pytest.mark.parametrize(("address", "is_refused"), [("127.0.0.1", True), ("0.0.0.0", False)])
async def test_another_user_of_this_machine(home: Home, address: str, is_refused: bool) -> None:
    """Is refused at once, unless the proxy listens where other machines can connect as well."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    notices: list[str] = []
    code = (
        # By `connect` alone: nothing is imported as that user, who may not enter the folder where Python is.
        f"import os, socket, sys; os.setuid({OTHER_USER}); s = socket.socket()\n"
        "try: s.connect(('127.0.0.1', int(sys.argv[1]))); s.recv(1)\n"
        "except ConnectionResetError: pass"
    )
    async with running_on(home, "192.0.2.7"):
        async with await open_proxy(home, JOB, "worker:0", 8888, notices.append, address=address) as proxy:
            command = [sys.executable, "-I", "-S", "-c", code, str(proxy.port)]
            process = await asyncio.create_subprocess_exec(*command)
            assert await process.wait() == 0
            refusal = f"refused a connection of user {OTHER_USER}: {proxy.place} serves only you and root"
        attempt = "nothing listens at 8888 of worker:0"
        assert notices == [refusal if is_refused else attempt]
