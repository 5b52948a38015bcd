"""A server that writes down what happens to it, and raw sockets that break the rules."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tony.client.credential_creation import make_credentials
from tony.protocol.client_messages import GetReport
from tony.protocol.hello import AM_NAME, PeerKind, encode_hello
from tony.protocol.launch import AmCredentials, JobCredentials
from tony.protocol.message_base import Message
from tony.rpc import RpcConnection, RpcServer, connect
from tony.rpc.am_address import UnixAddress, parse
from tony.rpc.sockets import shorten_path
from tony.rpc.tls_pipe import create_client_context

#: One job's secrets, and those of another one.
JOB = make_credentials(tls=True)
OTHER_JOB = make_credentials(tls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to listen, and with what secrets."""

    address: str
    job: JobCredentials
    scheme: str


@dataclass(slots=True)
class Diary:
    """A handler that writes everything down; answers each message by what `answer` makes of it."""

    connections: list[RpcConnection] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    answer: Callable[[RpcConnection, Message], None] = lambda connection, message: None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_connected(self, connection: RpcConnection) -> None:
        self.connections.append(connection)
        self.changed.set()

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        self.messages.append(message)
        self.changed.set()
        self.answer(connection, message)

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        self.connections.remove(connection)
        self.ends.append(reason)
        self.changed.set()

    async def until(self, true: Callable[[Diary], bool]) -> None:
        """Waits for the diary to become so."""
        while not true(self):
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def serving(place: Place, **options: Any) -> AsyncIterator[tuple[RpcServer, Diary, str]]:
    """A server that listens at the place, its diary, and its real address."""
    diary = Diary()
    server = RpcServer(place.job.am, diary, **options)
    address = await server.listen(place.address)
    try:
        yield server, diary, address
    finally:
        await server.close()


@asynccontextmanager
async def connected(
    place: Place, address: str, kind: PeerKind = PeerKind.EXECUTOR, credentials: AmCredentials | None = None
) -> AsyncIterator[RpcConnection]:
    """A connection of ours, closed to the last at the end."""
    connection = await connect(address, credentials or place.job.executors, kind)
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


@dataclass(slots=True)
class Raw:
    """A peer that sends whatever bytes it likes, after TLS where there is TLS."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        return await self.reader.read()


@asynccontextmanager
async def raw(
    address: str, credentials: AmCredentials | None = None, *, secure: bool = True, name: str = AM_NAME
) -> AsyncIterator[Raw]:
    """A raw connection to one that proves that name. Without `secure` it stays below TLS."""
    where = parse(address)
    if isinstance(where, UnixAddress):
        with shorten_path(where.path) as path:
            streams = await asyncio.open_unix_connection(path)
    elif secure:
        context: ssl.SSLContext = create_client_context(credentials or JOB.executors)
        streams = await asyncio.open_connection(where.host, where.port, ssl=context, server_hostname=name)
    else:
        streams = await asyncio.open_connection(where.host, where.port)
    try:
        yield Raw(*streams)
    finally:
        streams[1].transport.abort()
        try:
            await streams[1].wait_closed()
        except OSError:
            pass  # that is what an abrupt end looks like from this side


def hello(token: str = JOB.am.token, kind: PeerKind = PeerKind.EXECUTOR, version: int = 1) -> bytes:
    return encode_hello(kind, token, version)


def with_token_of(job: JobCredentials, credentials: AmCredentials) -> AmCredentials:
    """Certificates of one job with the token of another."""
    return replace(credentials, token=job.am.token)


#: Something to say.
QUESTION = GetReport()
