"""Connections made before the user's own rendezvous server is up wait for it, and are then forwarded."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.facts import mentions
from tony.executor.network.rendezvous_relay import Relay, find_announced_port

NAME = "{}____HOROVOD_RENDEZVOUS_SERVER____"


def run(relay: Relay, guest: Callable[[int], Awaitable[bytes]]) -> bytes:
    """What a guest of the relay is answered."""

    async def both() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        serving = asyncio.create_task(relay.serve(listening))
        try:
            async with asyncio.timeout(60):
                return await guest(port)
        finally:
            serving.cancel()

    return asyncio.run(both())


async def knock(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    try:
        return await reader.read(100)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def driver(folder: Path) -> asyncio.Server:
    """A server of the user's own that says where it listens, and answers with what it hears."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"you said " + await reader.read(100))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    (folder / NAME.format(server.sockets[0].getsockname()[1])).write_text("[]")
    return server


@pytest.mark.parametrize("where", ["told", "source"])
def test_an_early_connection_waits(tmp_path: Path, where: str) -> None:
    """The connection is there before the driver is; the word may lie in either folder."""
    for name in ("told", "source"):
        (tmp_path / name).mkdir()

    async def guest(port: int) -> bytes:
        early = asyncio.create_task(knock(port))
        while (
            not early.done() and len(asyncio.all_tasks()) < 4
        ):  # ours, the relay's, the guest's, and that of its visit
            await asyncio.sleep(0.01)
        assert not early.done()
        async with await driver(tmp_path / where):
            return await early

    assert run(Relay(str(tmp_path / "told"), str(tmp_path / "source"), since=0), guest) == b"you said hello"


def test_a_driver_that_never_announces_its_port(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The connection is closed, and the executor's log says why."""
    assert run(Relay(str(tmp_path), str(tmp_path), since=0, timeout=0.1), knock) == b""
    warning = capfd.readouterr().err
    assert "the driver has not announced its port" in warning
    assert f"{tmp_path} within 0 s" in warning


def test_a_driver_that_does_not_listen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As LinkedIn TonY's test double behaved: no task hangs."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        (tmp_path / NAME.format(port)).touch()
        assert run(Relay(str(tmp_path), str(tmp_path), since=0), knock) == b""
    assert mentions(capfd.readouterr().err, f"port {port}")


def test_the_newest_announced_port_counts(tmp_path: Path) -> None:
    """Not one from before; other files announce nothing."""
    assert find_announced_port(str(tmp_path / "nowhere")) is None
    for name in ("notes.txt", NAME.format("x"), NAME.format(0), NAME.format(99999)):
        (tmp_path / name).touch()
    assert find_announced_port(str(tmp_path)) is None
    for port, at in ((4001, 10), (4002, 30), (4003, 20)):
        (tmp_path / NAME.format(port)).touch()
        os.utime(tmp_path / NAME.format(port), (at, at))
    assert find_announced_port(str(tmp_path)) == 4002
    assert find_announced_port(str(tmp_path), since=31 * 10**9) is None
    assert find_announced_port(str(tmp_path), since=30 * 10**9) == 4002
    (tmp_path / "4004_____HOROVOD_RENDEZVOUS_SERVER____").touch()  # as LinkedIn TonY's manual spells it
    assert find_announced_port(str(tmp_path)) == 4004
