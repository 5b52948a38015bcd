"""Whole ends of a connection, with sockets: a server fed by hostile peers, a client by a hostile server, and TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tests.fuzz.targets.wire import framed_messages
from tests.fuzz.values import plain_of
from tests.rpc.recording_server import JOB, OTHER_JOB, Diary
from tony.errors import ConnectionFailedError, ProtocolError
from tony.executor.control.reattach_listener import ReattachListener
from tony.executor.network.rendezvous_store import RendezvousService, RendezvousStore
from tony.model.codec import from_plain
from tony.protocol.client_messages import GetReport
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Summon
from tony.protocol.framing import encode
from tony.protocol.hello import PeerKind, encode_answer, encode_hello
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done
from tony.rpc import RpcConnection, RpcServer, connect
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.server import HandshakeLimits
from tony.rpc.tls_pipe import TlsPipe, create_client_context, create_server_context

T = TypeVar("T")

#: Seconds, of the clock on the wall, that nothing here comes near.
_TIMEOUT_SECONDS = 30.0
_TOKEN = JOB.am.token
#: Between two pieces of a stream: what is before has arrived when the rest is sent.
_PAUSE = b"\n--\n"


class _Hall:
    """An event loop with a server in it, for all inputs of a process."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.strange: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.strange.append(context))
        self.diary = Diary(answer=_answer)
        self.address, self.port = "", 0
        self.server = RpcServer(JOB.am, self.diary, limits=HandshakeLimits(timeout_seconds=_TIMEOUT_SECONDS))
        self.run(self._listen())

    async def _listen(self) -> None:
        self.address = await self.server.listen(f"unix:{scratch('hall')}/am.sock")
        self.port = int((await self.server.listen("tls:127.0.0.1:0")).rpartition(":")[2])

    def run(self, work: Awaitable[T]) -> T:
        async def within() -> T:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await work

        self.strange.clear()
        result = self.loop.run_until_complete(within())
        assert not self.strange, self.strange
        return result


@cache
def _hall() -> _Hall:
    return _Hall()


def _answer(connection: RpcConnection, message: Message) -> None:
    if isinstance(message, GetReport):
        connection.send(GetReport())


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: list[bytes]) -> bytes:
    """Send the pieces one after the other; return what the other end answers, if it takes all of them."""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        return await reader.read()
    except OSError:
        return b""  # it refused the rest
    finally:
        writer.close()


async def _send(path: str, pieces: list[bytes], port: int | None = None) -> bytes:
    """Send the pieces to a Unix socket, or to a port of this machine; return the answer."""
    if port is None:
        return await _exchange(*await asyncio.open_unix_connection(path), pieces)
    return await _exchange(*await asyncio.open_connection("127.0.0.1", port), pieces)


def server(data: bytes) -> None:
    """A peer that sends these bytes, in pieces, and goes: the server forgets it, and still serves another one.

    The first byte says where: to the Unix socket, or to the port that speaks TLS.
    """
    hall = _hall()
    hall.run(_attack(hall, bool(data[:1] == b"\x01"), data[1:].split(_PAUSE)))
    assert not hall.diary.connections
    hall.diary.messages.clear()
    hall.diary.ends.clear()


async def _attack(hall: _Hall, over_tcp: bool, pieces: list[bytes]) -> None:
    path = hall.address.removeprefix("unix:")
    await _send(path, pieces, hall.port if over_tcp else None)
    while hall.server.get_statistics().open or hall.server.get_statistics().unauthenticated:
        await asyncio.sleep(0)
    honest = await connect(hall.address, JOB.executors, PeerKind.CLIENT)
    honest.send(GetReport())
    assert await honest.receive() == GetReport()
    honest.close()
    await honest.wait_closed()
    while hall.server.get_statistics().open:
        await asyncio.sleep(0)


def client(data: bytes) -> None:
    """Whatever answers at an application master's address: messages, or an error of ours."""
    _hall().run(_visit(data.split(_PAUSE)))


async def _visit(pieces: list[bytes]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _exchange(reader, writer, pieces)

    path = f"{scratch('visit')}/am.sock"
    async with await asyncio.start_unix_server(serve, path):
        connection = await connect(f"unix:{path}", JOB.executors, PeerKind.CLIENT)
        try:
            while (message := await connection.receive()) is not None:
                assert isinstance(message, Message)
        finally:
            connection.abort()
            await connection.wait_closed()


def meeting(data: bytes) -> None:
    """Whatever comes to the store at which programs meet, in pieces: it answers in HTTP, and serves the next one."""
    _hall().run(_ask(data.split(_PAUSE)))


async def _ask(pieces: list[bytes]) -> None:
    path = f"{scratch('meeting')}/store.sock"
    async with await asyncio.start_unix_server(
        RendezvousService(RendezvousStore(max_bytes=1 << 20), hold=0.0).on_connected, path
    ):
        said = await _send(path, pieces)
        assert not said or said.startswith(b"HTTP/1.1 "), said
        kept = await _send(
            path, [b"PUT /own/key HTTP/1.1\r\nContent-Length: 5\r\n\r\nvalue", b"GET /own/key HTTP/1.1\r\n\r\n"]
        )
        assert kept.endswith(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nvalue"), kept


class _Porch:
    """An executor's own listener, also on a Unix socket, where no certificate keeps bytes from what is behind it."""

    def __init__(self, hall: _Hall) -> None:
        context = from_plain(LaunchContext, plain_of(LaunchContext))
        container = replace(context.container, host="127.0.0.1")
        self.heard: list[Summon] = []
        self.listener = ReattachListener(replace(context, container=container, credentials=JOB.executors), self._obey)
        self.port = int(hall.run(self.listener.open()).rpartition(":")[2])
        self.server = self.listener._server
        self.path = f"{scratch('porch')}/listener.sock"
        hall.run(self.server.listen(f"unix:{self.path}"))

    def _obey(self, summon: Summon) -> bool:
        where = parse(summon.address)
        assert isinstance(where, TlsAddress)
        assert where.port
        assert summon.address.isprintable()
        assert 1 <= summon.attempt <= 10**6
        self.heard.append(summon)
        return summon.attempt >= 2


@cache
def _porch() -> _Porch:
    return _Porch(_hall())


def summons(data: bytes) -> None:
    """Any bytes at the address where an executor can be called: only the right AM is obeyed, and the next application
    master is still heard.

    The first byte selects a Unix socket, or the port that speaks TLS.
    """
    porch = _porch()
    _hall().run(_call(porch, bool(data[:1] == b"\x01"), data[1:].split(_PAUSE)))


async def _call(porch: _Porch, over_tcp: bool, pieces: list[bytes]) -> None:
    porch.heard.clear()
    await _send(porch.path, pieces, porch.port if over_tcp else None)
    while porch.server.get_statistics().open or porch.server.get_statistics().unauthenticated:
        await asyncio.sleep(0)
    assert not (over_tcp and porch.heard), "obeyed without a certificate"
    assert len(porch.heard) <= 1, "one call, one answer"
    honest = await connect(f"tls:127.0.0.1:{porch.port}", JOB.am, PeerKind.MASTER)
    honest.send(Summon(attempt=2, address="tls:h:1"))
    assert await honest.receive() == Done()
    honest.close()
    await honest.wait_closed()
    while porch.server.get_statistics().open:
        await asyncio.sleep(0)


def tls(data: bytes) -> None:
    """Bytes to either end of a TLS connection: from the beginning, and in the middle of one that is open.

    The first byte says which end, and how far the two are; then each byte of the other end's is changed by ours.
    """
    how, noise = (data[0] if data else 0), data[1:]
    ends = TlsPipe(_contexts()[0], listens=True), TlsPipe(_contexts()[1], listens=False)
    victim, other = ends if how & 1 else ends[::-1]
    rounds = how >> 1 & 3
    to_victim = other.start() if other is ends[1] else b""
    victim.start() if victim is ends[1] else b""
    to_other = victim.take_outgoing()
    for _ in range(rounds):
        to_other += _feed(victim, to_victim)
        to_victim = _feed(other, to_other)
        to_other = b""
    if how & 8:  # over what would come
        noise = bytes(a ^ b for a, b in zip(to_victim.ljust(len(noise), b"\0"), noise, strict=False)) or to_victim
    _feed(victim, noise)
    victim.close()


def _feed(pipe: TlsPipe, data: bytes) -> bytes:
    out = b""
    for plain in pipe.feed(memoryview(data)):
        assert isinstance(plain, bytes)
        out += pipe.take_outgoing()
    return out + pipe.take_outgoing()


@cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return create_server_context(JOB.am), create_client_context(JOB.executors)


def _server_seeds() -> list[bytes]:
    right = encode_hello(PeerKind.EXECUTOR, _TOKEN)
    frames = framed_messages()
    return [
        *(b"\x00" + right + frame for frame in frames),
        b"\x00" + right[:10] + _PAUSE + right[10:] + frames[0][:3] + _PAUSE + frames[0][3:],
        b"\x00" + encode_hello(PeerKind.CLIENT, OTHER_JOB.am.token) + frames[0],
        b"\x00" + encode_hello(PeerKind.CLIENT, _TOKEN, version=9),
        b"\x00" + right + b"\xff\xff\xff\xff" + b"x" * 50,
        b"\x00GET / HTTP/1.0\r\n\r\n",
        b"\x01" + right,
        b"\x01\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03",
    ]


def _client_seeds() -> list[bytes]:
    welcome = encode_answer(None)
    frames = framed_messages()
    refused = [encode_answer(code) for code in (Code.TOKEN, Code.BUSY, Code.VERSION)]
    return [*(welcome + frame for frame in frames), *refused, welcome[:3] + _PAUSE + welcome[3:] + b"".join(frames[:4])]


def _tls_seeds() -> list[bytes]:
    first = TlsPipe(_contexts()[1], listens=False).start()
    return [
        b"\x01" + first,
        b"\x00" + first[:40],
        b"\x03\x16\x03\x03\x00\x02\x00\x00",
        b"\x0d" + bytes(50) + b"\x01",
        b"\x0f\x00\x01",
    ]


def _summons_seeds() -> list[bytes]:
    right = encode_hello(PeerKind.MASTER, _TOKEN)
    told = (2, "tls:h:1"), (1, "tls:h:1"), (3, "unix:/x")
    calls = [encode(Summon(attempt=attempt, address=address)) for attempt, address in told]
    return [
        *(b"\x00" + right + call for call in calls),
        b"\x00" + right + calls[0] + calls[0],
        b"\x00" + right + encode(Summon(attempt=10**30, address="tls:h\n:1")),
        b"\x00" + right[:9] + _PAUSE + right[9:] + calls[0][:9] + _PAUSE + calls[0][9:],
        b"\x00" + right + framed_messages()[0],
        b"\x00" + encode_hello(PeerKind.EXECUTOR, _TOKEN) + calls[0],
        b"\x00" + encode_hello(PeerKind.MASTER, OTHER_JOB.am.token) + calls[0],
        b"\x00" + right + b"\x00\x00\x20\x00" + b"x" * 50,
        b"\x01" + right + calls[0],
        b"\x01\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03",
    ]


_WIRE_WORDS = (encode_hello(PeerKind.EXECUTOR, _TOKEN), encode_answer(None), _PAUSE, b"\x00\x00\x00\x10", b'{"k":"')


def _meeting_seeds() -> list[bytes]:
    put = b"PUT /global/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    get = b"GET /global/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
    delete = b"DELETE /global/0 HTTP/1.0\r\ncontent-length:0\r\n\r\n"
    return [_PAUSE.join([put, get, delete, get]), get, put[:-1], put + delete, b"PUT /a/b HTTP/1.1\r\n\r\n"]


TARGETS = (
    Target(name="server", run=server, errors=(), seeds=_server_seeds, tokens=_WIRE_WORDS),
    Target(
        name="client",
        run=client,
        errors=(ConnectionFailedError, ProtocolError),
        seeds=_client_seeds,
        tokens=_WIRE_WORDS,
    ),
    Target(
        name="summons",
        run=summons,
        errors=(),
        seeds=_summons_seeds,
        tokens=(*_WIRE_WORDS, encode_hello(PeerKind.MASTER, _TOKEN), b'"k":"summon"', b'"attempt":', b'"tls:h:1"'),
    ),
    Target(
        name="meeting",
        run=meeting,
        errors=(),
        seeds=_meeting_seeds,
        tokens=(b"GET /", b"PUT /", b"DELETE /", b" HTTP/1.1\r\n", b"Content-Length: ", b"\r\n\r\n", _PAUSE),
    ),
    Target(
        name="tls",
        run=tls,
        errors=(ProtocolError,),
        seeds=_tls_seeds,
        tokens=(b"\x16\x03\x01", b"\x17\x03\x03"),
        longest=1024,
    ),
)
