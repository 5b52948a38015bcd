"""A server and those who would wear it out: over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from starlette.types import ASGIApp

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import keep
from tests.web.serving import served
from tony.linux.resource_limits import allow_open_files
from tony.linux.socket_owners import peer_uid
from tony.model.state_directory import Home
from tony.web import uvicorn_server
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
#: Seconds after which something that must happen has not.
CEILING = 60.0
#: Who follows a log at the same time.
FOLLOWERS = 1000


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> ASGIApp:
    """A portal of one job with a long log, for our own user."""
    home = Home(tmp_path_factory.mktemp("home"))
    folder = keep(home)
    (folder.logs / "worker-0.s1.t1.out").write_bytes(b"x" * 99 + b"\n" + bytes(100) * 400_000)
    return create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann"))))


@pytest.fixture
def port(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(uvicorn_server, "_REQUEST_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(uvicorn_server, "_WRITE_TIMEOUT_SECONDS", 0.5)
    with served(app) as number:
        yield number


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), CEILING)


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def ended(connection: socket.socket) -> bool:
    """Whether the other side has ended it by now."""
    try:
        connection.setblocking(False)
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def works(port: int) -> bool:
    """Whether others are served; on a busy machine one may itself be too slow for the little patience here."""
    deadline = time.monotonic() + CEILING
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), connected(port) as connection:
            connection.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if b'"how":"peer"' in answer(connection):
                return True
    return False


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"PUT /api/v1/jobs/x/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
)
def test_a_slow_request_is_closed(port: int, said: bytes) -> None:
    """A request that is not complete in time is not waited for."""
    with connected(port) as connection:
        connection.sendall(said)
        began = time.monotonic()
        assert answer(connection) == b""
        assert time.monotonic() - began < CEILING
    assert works(port)


def test_a_dripping_request_is_closed(port: int) -> None:
    """A byte now and then is not enough."""
    with connected(port) as connection:
        connection.settimeout(0.05)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        left = False
        deadline = time.monotonic() + CEILING
        while not left:
            assert time.monotonic() < deadline
            try:
                connection.sendall(b"X-a: y\r\n")
                left = not connection.recv(1)
            except TimeoutError:
                continue
            except OSError:
                left = True
    assert works(port)


def test_a_response_that_is_not_read_is_closed(port: int) -> None:
    """A response that the client does not read must not hold a file, thread and memory for ever."""
    with connected(port) as connection:
        path = f"/api/v1/jobs/{JOB}/logs/worker-0.s1.t1.out/download"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        deadline = time.monotonic() + CEILING
        # What the kernel has taken it still offers; whose the other end is it does not know when that was closed.
        while peer_uid(connection) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert works(port)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(3000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1_000_000,
    ],
)
def test_heads_without_end(port: int, said: bytes) -> None:
    with connected(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(said)
        told = answer(connection)
    assert told == b"" or told.split(b" ")[1][:1] == b"4"
    assert works(port)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
    ],
)
def test_invalid_http_is_refused(port: int, said: bytes) -> None:
    with connected(port) as connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        told = answer(connection)
    assert told == b"" or told.split(b" ")[1][:1] == b"4"
    assert works(port)


def test_silent_connections_make_room_for_those_with_requests(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "_MAX_CONNECTIONS", 80)
    with served(app) as port, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(port)) for _ in range(30)]
        deadline = time.monotonic() + CEILING
        while sum(map(ended, held)) < 10:
            assert time.monotonic() < deadline
        assert works(port)
        stack.close()
        assert works(port)


@pytest.mark.parametrize(("open_files", "most"), [(256, 128), (1024, 524), (4500, 4000), (10**6, 4000)])
def test_there_are_fewer_connections_than_open_files(open_files: int, most: int) -> None:
    bounds = uvicorn_server.Connections(open_files)
    assert (bounds.most, bounds.most_of_one, bounds.most_silent_of_one) == (most, most // 2, most // 4)


class Transport(asyncio.Transport):
    """A connection without a network."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_the_oldest_silent_connection_is_closed_first() -> None:
    """Of the same peer, where that one has too many; else of all."""
    connections = uvicorn_server.Connections(64)  # 32 at one time, 16 of one, 8 of them silent
    busy = [Transport() for _ in range(16)]
    for each in busy:
        connections.add(each, "user 1")
        connections.note_request(each)
    refused = Transport()
    connections.add(refused, "user 1")
    assert refused.aborted
    silent = [Transport() for _ in range(9)]
    for each in silent:
        connections.add(each, "user 2")
    assert [each.aborted for each in silent] == [True, *[False] * 8]
    for number in range(9):
        connections.add(Transport(), f"user {3 + number}")
    assert [each.aborted for each in silent] == [True, True, *[False] * 7]
    connections.remove(refused)
    assert not any(each.aborted for each in busy)


def test_a_thousand_follow_a_log(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them at once, several times: each gets its piece, whole."""
    monkeypatch.setattr(
        uvicorn_server, "_REQUEST_TIMEOUT_SECONDS", 10 * CEILING
    )  # they wait for each other before they ask
    allow_open_files(3 * FOLLOWERS)
    request = (
        f"GET /api/v1/jobs/{JOB}/logs/worker-0.s1.t1.out?offset=0&most=100 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ).encode()

    async def follow(port: int, ready: asyncio.Barrier) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await ready.wait()
        right = 0
        for _ in range(2):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            right += head.startswith(b"HTTP/1.1 200") and b"x" * 99 in body
        writer.close()
        return right

    async def all_of_them(port: int) -> list[int]:
        ready = asyncio.Barrier(FOLLOWERS)
        return await asyncio.gather(*(follow(port, ready) for _ in range(FOLLOWERS)))

    with served(app) as port:
        assert asyncio.run(all_of_them(port)) == [2] * FOLLOWERS
        assert works(port)
