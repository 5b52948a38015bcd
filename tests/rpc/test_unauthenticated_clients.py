"""Clients without any credential do not keep the job's own peers out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.rpc.connection_flood import first_message
from tests.rpc.recording_server import JOB, OTHER_JOB, Place, connected, hello, raw, serving
from tests.support.waiting import wait_until
from tony.protocol.launch import AmCredentials
from tony.rpc import RpcServer, connect
from tony.rpc.server import HandshakeLimits
from tony.rpc.tls_pipe import build_handshake_tag, create_client_context

#: Connections of the flood: as many as an ordinary process may have, and more than wait in the kernel's queue.
FLOOD_CONNECTIONS = 5000
TLS_PLACE = Place(address="tls:127.0.0.1:0", job=JOB, scheme="tls")


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextlib.asynccontextmanager
async def open_sockets(
    address: str, count: int, data: bytes = b"", source: str = "127.0.0.1"
) -> AsyncIterator[list[socket.socket]]:
    """Connections that have sent so much, and nothing more."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(address)), 30, (source, 0)))
            made.setblocking(False)
            made.send(data)
            found.append(made)
        yield found


@contextlib.asynccontextmanager
async def few_places(min_age: float = 0.0) -> AsyncIterator[tuple[RpcServer, str]]:
    limits = HandshakeLimits(max_unrecognized=4, min_age_seconds=min_age)
    async with serving(TLS_PLACE, limits=limits) as (server, _, address):
        yield server, address


def is_dropped(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("data", [b"", first_message(), first_message()[:20], b"GET / HTTP/1.1\r\n\r\n" * 300], ids=len)
async def test_the_oldest_give_way(data: bytes) -> None:
    """Whatever they have sent; an own peer in the midst of its handshake does not."""
    async with few_places() as (server, address), raw(address):
        async with open_sockets(address, 40, data) as sockets, connected(TLS_PLACE, address):
            await wait_until(lambda: sum(map(is_dropped, sockets)) >= 36)
            assert server.get_statistics().open == 1
            assert sum(server.get_statistics().refused.values()) >= 36
        await wait_until(
            lambda: server.get_statistics().unauthenticated == 1
        )  # the own peer that is not through with its hello


async def test_none_is_dropped_while_there_is_room() -> None:
    async with few_places() as (server, address), open_sockets(address, 4) as sockets:
        await wait_until(lambda: server.get_statistics().unauthenticated == 4)
        assert not any(map(is_dropped, sockets))
        assert server.get_statistics().refused == {}


async def test_each_has_its_moment() -> None:
    """The next one waits in the kernel's queue."""
    async with few_places(min_age=3600.0) as (server, address), open_sockets(address, 6) as sockets:
        await wait_until(lambda: server.get_statistics().unauthenticated == 4)
        sockets.pop(0).close()
        await wait_until(lambda: server.get_statistics().accepted == 5)
        assert not any(map(is_dropped, sockets))


async def test_the_address_with_the_most_gives_way() -> None:
    """A peer of another address keeps its place, though it is the oldest and silent."""
    async with few_places() as (server, address), open_sockets(address, 1, source="127.0.0.2") as alone:
        await wait_until(lambda: server.get_statistics().unauthenticated == 1)
        async with open_sockets(address, 30) as sockets:
            await wait_until(lambda: sum(map(is_dropped, sockets)) >= 26)
            assert not is_dropped(alone[0])


async def test_the_handshake_tag_does_not_reveal_the_token() -> None:
    """Another job's tag is different; every TLS client of the job sends it."""
    tag = build_handshake_tag(JOB.am.token)
    assert tag != build_handshake_tag(OTHER_JOB.am.token)
    assert JOB.am.token not in tag
    outgoing = ssl.MemoryBIO()
    engine = create_client_context(JOB.executors).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="tony-am")
    with pytest.raises(ssl.SSLWantReadError):
        engine.do_handshake()
    assert tag.encode() in outgoing.read()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["idle", "half-open"])
async def test_a_flood_keeps_no_executor_out(mode: str) -> None:
    """It connects while thousands of others hold every place that they get."""
    async with serving(TLS_PLACE) as (server, _, address):
        command = [
            sys.executable,
            "-m",
            "tests.rpc.connection_flood",
            str(port_of(address)),
            str(FLOOD_CONNECTIONS),
            mode,
        ]
        flood = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        try:
            assert flood.stdout
            assert await flood.stdout.readline() == b"ready\n"
            await wait_until(lambda: server.get_statistics().refused.get("no-room", 0) > 0)
            connection = await connect(address, JOB.executors, timeout=60.0)
            assert connection.is_open
            connection.close()
            await connection.wait_closed()
        finally:
            flood.kill()
            await flood.wait()


# --- openssl itself ---------------------------------------------------------------------------------------------------


def pair(folder: Path, name: str, credentials: AmCredentials) -> list[str]:
    """Options of `openssl s_client` for a certificate."""
    assert credentials.certificate
    assert credentials.key
    (folder / f"{name}.pem").write_text(credentials.certificate + credentials.key)
    return ["-cert", str(folder / f"{name}.pem"), "-key", str(folder / f"{name}.pem")]


@pytest.mark.parametrize(
    ("case", "is_let_in"),
    [
        ("own certificate", True),
        ("no certificate", False),
        ("certificate of another job", False),
        ("TLS 1.2", False),
        ("TLS 1.1", False),
        ("early data", False),
    ],
)
async def test_openssl(case: str, is_let_in: bool, tmp_path: Path) -> None:
    """With a right hello behind the handshake; only an own certificate brings it before the server's eyes."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    own, foreign = pair(tmp_path, "own", JOB.executors), pair(tmp_path, "foreign", OTHER_JOB.executors)
    (tmp_path / "early").write_bytes(hello())
    options = {
        "own certificate": own,
        "no certificate": [],
        "certificate of another job": foreign,
        "TLS 1.2": [*own, "-tls1_2"],
        "TLS 1.1": [*own, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"],
        "early data": ["-early_data", str(tmp_path / "early")],
    }[case]
    async with serving(TLS_PLACE) as (server, diary, address):
        client = await asyncio.create_subprocess_exec(
            *(program, "s_client", "-quiet", "-connect", f"127.0.0.1:{port_of(address)}", *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        try:
            assert client.stdin
            client.stdin.write(hello())
            if is_let_in:
                await diary.until(lambda diary: len(diary.connections) == 1)
            else:
                await wait_until(lambda: server.get_statistics().refused == {"tls": 1})
                assert diary.connections == []
        finally:
            with contextlib.suppress(ProcessLookupError):
                client.kill()
            await client.communicate()
