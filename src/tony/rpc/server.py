"""The listening side: authenticates peers by the job's token and their certificate, and passes on their messages."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tony.errors import ProtocolError
from tony.linux import os_errors
from tony.linux.resource_limits import allow_open_files
from tony.protocol.error_codes import Code
from tony.protocol.framing import MAX_FROM_AM, MAX_FROM_PEER, MAX_SUMMON
from tony.protocol.hello import HELLO_SIZE, PeerKind, check_hello, decode_token, encode_answer
from tony.protocol.launch import AmCredentials
from tony.protocol.message_base import Message
from tony.rpc.am_address import TlsAddress, UnixAddress, parse
from tony.rpc.connection import READ_SIZE, ConnectionSide, Phase, RpcConnection
from tony.rpc.sockets import listen_tcp, listen_unix, remove_socket, wait_until_readable

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

#: Up to this number, each gets its handshake, and this process's limit of open files is unchanged.
_FEW_UNRECOGNIZED = 64
#: Seconds until the next try if all of them are younger.
_DROP_RETRY_SECONDS = 0.01
#: Bytes in which the tag must be: the first message of a TLS handshake.
_MAX_FIRST_MESSAGE_BYTES = 4096
#: Bytes of the head of a TLS record, and the first of them in a handshake.
_RECORD_HEAD_BYTES = 5
_HANDSHAKE_RECORD = 22
#: Minimum seconds between two log lines about the same kind of refusal.
_LOG_INTERVAL_SECONDS = 5.0
#: Maximum characters of a log line about a peer.
_LINE = 500
#: Seconds to wait when there are no file descriptors left.
_ACCEPT_PAUSE_SECONDS = 1.0
#: Kinds of peers that connect to an AM.
GUESTS = frozenset({PeerKind.EXECUTOR, PeerKind.CLIENT})
_CODES = frozenset(code.value for code in Code)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """Limits for connections that have not yet shown the right token.

    Attributes:
        timeout_seconds: from the connection to a complete hello. A handshake takes a few ms of CPU time; the rest is
            for busy hosts.
        max_unauthenticated: connections of the job's own peers at one time. More wait in the kernel's queue, so that of
            10,000 executors that connect at once none runs into the timeout because of the others' handshakes.
        max_unrecognized: TLS connections at one time without the job's tag (`tls_pipe.build_handshake_tag`), if the
            open file limit allows it. Of more, the oldest ones of the address that has the most are dropped.
        min_age_seconds: none that is younger is dropped: a peer on a busy machine needs a moment for its first message.
    """

    timeout_seconds: float = 10.0
    max_unauthenticated: int = 256
    max_unrecognized: int = 4096
    min_age_seconds: float = 0.25


class Handler(Protocol):
    """Receives the messages of a server. Called in the event loop's thread, one call at a time; must not block.

    An exception raised here closes that connection and is passed to the loop's exception handler.
    """

    def on_connected(self, connection: RpcConnection) -> None:
        """Handle a peer that has shown the right token; see `connection.kind`."""

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        """Handle a message, in the order in which they were sent."""

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        """Handle the end of a connection, once for each `connected`. See `connection.error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """Counters of a server.

    Attributes:
        open: connections now that have shown the right token.
        unauthenticated: connections now that have not yet.
        accepted: connections so far.
        messages: received from all of them.
        refused: code -> how many connections ended with it, before or after the hello; `no-room`: how many were dropped
            without the job's tag, because there were too many of them.
    """

    open: int
    unauthenticated: int
    accepted: int
    messages: int
    refused: Mapping[str, int]


class RpcServer:
    """Listens on one or more addresses, for an AM or for an executor that can be called."""

    def __init__(
        self,
        credentials: AmCredentials,
        handler: Handler,
        *,
        limits: HandshakeLimits = HandshakeLimits(),
        guests: frozenset[PeerKind] = GUESTS,
    ) -> None:
        """Do not listen yet.

        Args:
            credentials: those of the listening side.
            guests: kinds of peers that may connect. All hold the job's token; over TLS each must prove its name, too.

        Raises:
            ValueError: the token is invalid.
        """
        decode_token(credentials.token)
        self._credentials = credentials
        self._side = _ListeningSide(credentials.token, handler, limits, guests)
        self._accepting: dict[asyncio.Task[None], socket.socket] = {}
        self._files: list[tuple[str, int]] = []

    async def listen(self, address: str) -> str:
        """Start listening.

        Args:
            address: `unix:/path` or `tls:host:port`; port 0 lets the kernel choose.

        Returns:
            The address to connect to, with the real port.

        Raises:
            InfraError: the address cannot be used.
            ValueError: an invalid address, or credentials without certificates for `tls:`.
        """
        where = parse(address)
        context: ssl.SSLContext | None = None
        if isinstance(where, UnixAddress):
            listener = await listen_unix(where.path)
            self._files.append((where.path, os.lstat(where.path).st_ino))
        else:
            # late: it loads OpenSSL, which Unix sockets do not need
            from tony.rpc.tls_pipe import build_handshake_tag, create_server_context

            context = create_server_context(self._credentials)
            self._side.tag = build_handshake_tag(self._credentials.token).encode()
            listener = await listen_tcp(where)
            where = TlsAddress(host=where.host, port=listener.getsockname()[1])
        task = asyncio.get_running_loop().create_task(self._side.accept(listener, context), name=f"accept {where}")
        self._accepting[task] = listener
        return str(where)

    def get_statistics(self) -> ServerStatistics:
        """Return the counters."""
        return self._side.get_statistics()

    async def close(self) -> None:
        """Stop listening, and close every connection after its data has been sent."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listener in self._accepting.values():
            listener.close()
        for path, inode in self._files:
            remove_socket(path, inode)
        self._accepting, self._files = {}, []
        await self._side.close()


class _ListeningSide(ConnectionSide):
    """State of all connections of a server."""

    greeting_size = HELLO_SIZE
    limit_in = MAX_FROM_PEER
    limit_out = MAX_FROM_AM

    #: By which a TLS connection of one of the job's peers is recognized.
    tag = b""

    def __init__(self, token: str, handler: Handler, limits: HandshakeLimits, guests: frozenset[PeerKind]) -> None:
        self._token = token
        self._guests = guests
        if guests == {PeerKind.MASTER}:
            self.limit_in = self.limit_out = MAX_SUMMON
        self._handler = handler
        self._limits = limits
        self._max_unrecognized = limits.max_unrecognized
        self._few = min(_FEW_UNRECOGNIZED, limits.max_unrecognized)
        self._is_fitted = limits.max_unrecognized <= _FEW_UNRECOGNIZED
        self._unauthenticated: dict[RpcConnection, asyncio.TimerHandle] = {}
        self._unrecognized = _Unrecognized()
        self._open: set[RpcConnection] = set()
        self._can_accept = asyncio.Event()
        self._can_accept.set()
        self._buffer = bytearray(READ_SIZE)
        self._accepted = self._messages = 0
        self._refused: Counter[str] = Counter()
        self._logged: dict[str, tuple[float, int]] = {}

    def get_statistics(self) -> ServerStatistics:
        return ServerStatistics(
            open=len(self._open),
            unauthenticated=len(self._unauthenticated),
            accepted=self._accepted,
            messages=self._messages,
            refused=dict(self._refused),
        )

    async def close(self) -> None:
        everyone = [*self._open, *self._unauthenticated]
        for connection in everyone:
            connection.close() if connection.is_open else connection.abort()
        await asyncio.gather(*(connection.wait_closed() for connection in everyone))

    # --- accepting ------------------------------------------------------------------------------------------------

    async def accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept connections from a listening socket until cancelled.

        Not by `loop.sock_accept`: cancelled just when it accepts a connection, it would never close that.
        """
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            await self._can_accept.wait()
            if self._is_crowded():
                await wait_until_readable(listener)
                if self._is_crowded() and not self._drop_one():
                    await asyncio.sleep(_DROP_RETRY_SECONDS)
                    continue
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                await wait_until_readable(listener)
                continue
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._log_limited(
                        "no-room", f"cannot take another connection: {os_errors.describe_os_error(error)}"
                    )
                    await asyncio.sleep(_DROP_RETRY_SECONDS if self._drop_one() else _ACCEPT_PAUSE_SECONDS)
                continue  # or that connection was closed before it was accepted
            sock.setblocking(False)
            await loop.connect_accepted_socket(lambda: self._create_connection(context), sock)

    def _create_connection(self, context: ssl.SSLContext | None) -> RpcConnection:
        if context is None:
            return RpcConnection(self, self._buffer, PeerKind.EXECUTOR, None)
        from tony.rpc.tls_pipe import TlsPipe  # late: as above

        return RpcConnection(self, self._buffer, PeerKind.EXECUTOR, TlsPipe(context, listens=True))

    def on_transport(self, connection: RpcConnection) -> None:
        self._accepted += 1
        loop = asyncio.get_running_loop()
        timeout = self._limits.timeout_seconds
        self._unauthenticated[connection] = loop.call_later(timeout, self._on_handshake_timeout, connection)
        if connection.is_encrypted:
            self._unrecognized.add(connection, loop.time())
        self._update_can_accept()

    def may_secure(self, connection: RpcConnection, data: memoryview) -> bool:
        first = self._unrecognized.take_first_message(connection, data)
        if first is None:
            return True
        if self.tag in first:
            self._unrecognized.remove(connection)
            self._update_can_accept()
            return True
        # Handshakes with all of them would let an attacker keep the CPU busy.
        return len(self._unrecognized) <= self._few or not _is_whole_record(first)

    def _is_crowded(self) -> bool:
        """Return True if there is no room for another connection without the job's tag."""
        count = len(self._unrecognized)
        if count > self._few and not self._is_fitted:
            # Not before: children inherit the limit.
            self._is_fitted = True
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            more = allow_open_files(soft + self._max_unrecognized) - soft
            self._max_unrecognized = min(self._max_unrecognized, max(more, soft // 4))
        return count >= self._max_unrecognized

    def _drop_one(self) -> bool:
        """Drop a connection without the job's tag; return False if none is old enough."""
        connection = self._unrecognized.find_droppable(asyncio.get_running_loop().time() - self._limits.min_age_seconds)
        if connection is None:
            return False
        self._drop(connection)
        return True

    def _drop(self, connection: RpcConnection) -> None:
        self._refused["no-room"] += 1
        self._log_limited("no-room", f"too many connections without this job's token; dropped one of {connection.peer}")
        self._unrecognized.remove(connection)
        connection.abort()

    def _update_can_accept(self) -> None:
        if len(self._unauthenticated) - len(self._unrecognized) < self._limits.max_unauthenticated:
            self._can_accept.set()
        else:
            self._can_accept.clear()

    def _on_handshake_timeout(self, connection: RpcConnection) -> None:
        text = f"no complete hello within {self._limits.timeout_seconds:g} s"
        connection.abort(ProtocolError(Code.TIMEOUT, text))

    def _forget_unauthenticated(self, connection: RpcConnection) -> None:
        timer = self._unauthenticated.pop(connection, None)
        if timer is not None:
            timer.cancel()
        self._unrecognized.remove(connection)
        self._update_can_accept()

    # --- the hello ------------------------------------------------------------------------------------------------

    def on_greeting(self, connection: RpcConnection, data: bytes) -> tuple[PeerKind, bytes]:
        kind = check_hello(data, self._token)
        if kind not in self._guests:
            raise ProtocolError(Code.BAD_MESSAGE, f"a peer of the kind {kind.value} may not connect here")
        if not connection.proves(kind.own_name):
            raise ProtocolError(Code.TLS, f"its certificate is of this job, but not for {kind.own_name}")
        return kind, encode_answer(None)

    def build_refusal(self, error: ProtocolError) -> bytes:
        return encode_answer(Code(error.code))

    def on_open(self, connection: RpcConnection) -> None:
        self._forget_unauthenticated(connection)
        self._open.add(connection)
        self._handler.on_connected(connection)

    # --- afterwards -----------------------------------------------------------------------------------------------

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        self._messages += 1
        self._handler.on_message(connection, message)

    def on_end(self, connection: RpcConnection) -> None:
        error = connection.error
        if isinstance(error, ProtocolError):
            # The other side may have refused with a code of its own, which must not become a counter here.
            code = str(error.code) if error.code in _CODES else "other"
            self._refused[code] += 1
            self._log_limited(code, f"refused {connection.peer}: {error} ({code})")

    def on_closed(self, connection: RpcConnection, was: Phase) -> None:
        self._forget_unauthenticated(connection)
        if connection in self._open:
            self._open.remove(connection)
            orderly = "closed by the other side" if connection.closed_by_peer else "closed by this side"
            self._handler.on_closed(connection, str(connection.error or orderly))

    def _log_limited(self, about: str, text: str) -> None:
        """Log a line, but not the same kind repeatedly: a peer must not be able to fill the log."""
        now = asyncio.get_running_loop().time()
        last, kept_back = self._logged.get(about, (-_LOG_INTERVAL_SECONDS, 0))
        if now - last < _LOG_INTERVAL_SECONDS:
            self._logged[about] = (last, kept_back + 1)
            return
        self._logged[about] = (now, 0)
        more = f" (and {kept_back} more like it before)" if kept_back else ""
        text = text if len(text) <= _LINE and text.isprintable() else ascii(text[:_LINE])
        log.warning("%s%s", text, more)


class _Unrecognized:
    """TLS connections that have not shown the job's tag, by address; those of each address oldest first."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[RpcConnection, float]] = {}
        self._first_messages: dict[RpcConnection, bytes] = {}

    def __len__(self) -> int:
        return len(self._first_messages)

    def add(self, connection: RpcConnection, now: float) -> None:
        self._first_messages[connection] = b""
        self._by_address.setdefault(_find_host(connection), {})[connection] = now

    def remove(self, connection: RpcConnection) -> None:
        """Remove a connection, if it is here."""
        if self._first_messages.pop(connection, None) is None:
            return
        group = self._by_address[_find_host(connection)]
        del group[connection]
        if not group:
            del self._by_address[_find_host(connection)]

    def take_first_message(self, connection: RpcConnection, data: memoryview) -> bytes | None:
        """Return what a connection has sent so far, these bytes included; None if that has been seen already."""
        before = self._first_messages.get(connection)
        if before is None or len(before) >= _MAX_FIRST_MESSAGE_BYTES:
            return None
        self._first_messages[connection] = before + bytes(data[:_MAX_FIRST_MESSAGE_BYTES])
        return self._first_messages[connection]

    def find_droppable(self, opened_before: float) -> RpcConnection | None:
        """Return the oldest connection of the address that has the most, except those with unread first bytes."""
        group = max(self._by_address.values(), key=len, default={})
        for connection, opened_at in group.items():
            if opened_at > opened_before:
                break
            if self._first_messages[connection] or not connection.has_unread:
                return connection
        return None


def _find_host(connection: RpcConnection) -> str:
    return connection.peer.rpartition(":")[0]


def _is_whole_record(data: bytes) -> bool:
    """Return True if data begins with a whole TLS record, with none at all, or with one that is too long."""
    if data[0] != _HANDSHAKE_RECORD or len(data) >= _MAX_FIRST_MESSAGE_BYTES:
        return True
    return len(data) >= _RECORD_HEAD_BYTES + int.from_bytes(data[3:_RECORD_HEAD_BYTES], "big")
