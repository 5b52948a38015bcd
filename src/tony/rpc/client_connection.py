"""The connecting side: `connect`, and the queue of received messages."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tony.errors import ConnectionFailedError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.framing import MAX_FROM_AM, MAX_FROM_PEER, MAX_SUMMON, Raw
from tony.protocol.hello import ANSWER_SIZE, PeerKind, check_answer, encode_hello
from tony.protocol.launch import AmCredentials
from tony.protocol.message_base import Message
from tony.rpc.am_address import AmAddress, UnixAddress, parse
from tony.rpc.connection import READ_SIZE, ConnectionSide, Phase, RpcConnection
from tony.rpc.sockets import describe_error, resolve, shorten_path

if TYPE_CHECKING:
    from tony.rpc.tls_pipe import TlsPipe

#: Queued messages above which reading pauses: a slow receiver slows the sender instead of filling memory.
_MAX_QUEUED = 16
#: The same in bytes for tunnels: there may be hundreds of them.
_MAX_QUEUED_RAW_BYTES = 4 * READ_SIZE
#: Seconds between tries while the backlog of a Unix socket is full: the kernel does not signal its end.
_QUEUE_FULL_PAUSE_SECONDS = 0.02


async def connect(
    address: str,
    credentials: AmCredentials,
    kind: PeerKind = PeerKind.EXECUTOR,
    timeout: float = 10.0,
    dial: Callable[[str], Awaitable[socket.socket]] | None = None,
) -> RpcConnection:
    """Connect to an AM, or as an AM to an executor; the connection is ready for messages when this returns.

    Args:
        address: `unix:/path` or `tls:host:port`.
        kind: the owner of the credentials. A `MASTER` connects to executors, all others to an AM.
        timeout: seconds for everything: name, connection, TLS, hello.
        dial: returns a socket that leads to the address, or is closed if nothing listens there; None: connect directly.

    Raises:
        ConnectionFailedError: nothing listens there (`no_listener`), no answer in time, or a wrong certificate.
        ProtocolError: the AM refused the connection: `token`, `version`, ...
        ValueError: an invalid address, or credentials without certificates for `tls:`.
    """
    where = parse(address)
    tls: TlsPipe | None = None
    if not isinstance(where, UnixAddress):
        from tony.rpc.tls_pipe import TlsPipe, create_client_context  # late: it loads OpenSSL, Unix sockets need none

        tls = TlsPipe(create_client_context(credentials), listens=False, partner=kind.partner_name)
    side = _ConnectingSide(address, kind, encode_hello(kind, credentials.token), is_forwarded=dial is not None)
    connection = RpcConnection(side, bytearray(READ_SIZE), kind, tls)
    is_ready = False
    try:
        async with asyncio.timeout(timeout):
            sock = await (dial(address) if dial else _connect_socket(where))
            try:
                await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
            except BaseException:
                sock.close()
                raise
            await side.answered
        is_ready = True
    except TimeoutError:
        raise ConnectionFailedError(f"no answer from {address} within {timeout:g} s") from None
    except OSError as error:
        raise ConnectionFailedError(
            f"cannot connect to {address}: {describe_error(error)}", no_listener=_has_no_listener(error)
        ) from error
    finally:
        if not is_ready:  # also if cancelled just when the answer arrives
            side.answered.cancel()
            connection.abort()
    return connection


class _ConnectingSide(ConnectionSide):
    """The connecting side, and the queue of received messages."""

    greeting_size = ANSWER_SIZE
    limit_in = MAX_FROM_AM
    limit_out = MAX_FROM_PEER

    def __init__(self, address: str, kind: PeerKind, hello: bytes, *, is_forwarded: bool) -> None:
        self._address, self._is_forwarded = address, is_forwarded
        self._kind = kind
        if kind is PeerKind.MASTER:
            self.limit_in = self.limit_out = MAX_SUMMON
        self._hello = hello
        self._waiting: deque[Message] = deque()
        self._raw = 0
        self._wakeup: asyncio.Future[None] | None = None
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_transport(self, connection: RpcConnection) -> None:
        connection.peer = self._address

    def build_greeting(self) -> bytes:
        return self._hello

    def on_greeting(self, connection: RpcConnection, data: bytes) -> tuple[PeerKind, bytes]:
        check_answer(data)
        return self._kind, b""

    def on_open(self, connection: RpcConnection) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        self._waiting.append(message)
        if isinstance(message, Raw):
            self._raw += len(message.frame)
        if len(self._waiting) >= _MAX_QUEUED or self._raw >= _MAX_QUEUED_RAW_BYTES:
            connection.pause_reading()
        self._wake()

    def on_end(self, connection: RpcConnection) -> None:
        self._wake()

    def on_closed(self, connection: RpcConnection, was: Phase) -> None:
        self._wake()
        if not self.answered.done():
            self.answered.set_exception(_find_failure_reason(connection, was, is_forwarded=self._is_forwarded))

    async def take(self, connection: RpcConnection) -> Message | None:
        while not self._waiting:
            if connection.is_finished:
                if isinstance(connection.error, ProtocolError):
                    raise connection.error
                return None
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        message = self._waiting.popleft()
        if isinstance(message, Raw):
            self._raw -= len(message.frame)
        if len(self._waiting) < _MAX_QUEUED // 2 and self._raw <= _MAX_QUEUED_RAW_BYTES // 2:
            connection.resume_reading()
        return message

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)


def _find_failure_reason(connection: RpcConnection, was: Phase, *, is_forwarded: bool) -> Exception:
    error = connection.error
    if error is None:
        step = "TLS handshake" if was is Phase.SECURING else "hello"
        text = f"{connection.peer} closed the connection during the {step}"
        return ConnectionFailedError(text, no_listener=is_forwarded)
    if isinstance(error, ConnectionFailedError):
        return ConnectionFailedError(str(error), no_listener=is_forwarded)
    if isinstance(error, ProtocolError) and error.code in (Code.TLS, Code.PEER):
        # Another process may have got the address of a dead AM: a later try may reach the real one.
        return ConnectionFailedError(f"not this job's application master at {connection.peer}: {error}")
    return error


async def _connect_socket(address: AmAddress) -> socket.socket:
    loop = asyncio.get_running_loop()
    if isinstance(address, UnixAddress):
        return await _connect_unix(address.path)
    failures: list[OSError] = []
    for family, target in await resolve(address):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, target)
            return sock
        except OSError as error:
            sock.close()
            failures.append(error)
        except BaseException:
            sock.close()
            raise
    # If one address fails in another way than by refusing, an AM may be listening there.
    raise next((error for error in failures if not _has_no_listener(error)), failures[0])


async def _connect_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        with shorten_path(path) as short:
            while True:
                with suppress(BlockingIOError):
                    sock.connect(short)
                    return sock
                await asyncio.sleep(_QUEUE_FULL_PAUSE_SECONDS)
    except BaseException:
        sock.close()
        raise


def _has_no_listener(error: OSError) -> bool:
    return isinstance(error, ConnectionRefusedError | FileNotFoundError)
