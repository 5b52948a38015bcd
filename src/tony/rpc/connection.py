"""One connection of either side: TLS if used, the hello, then messages in both directions.

All callbacks run in the event loop's thread. Bytes are read into one buffer that a server's connections share, so an
idle connection needs almost no memory. Outgoing data is queued unencrypted, one object for all recipients of the same
frame, and encrypted piece by piece as the other side reads: a peer that does not read costs one piece.
"""

from __future__ import annotations

import asyncio
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, cast

from tony.control_characters import escape
from tony.errors import ConnectionFailedError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.framing import Decoder, encode
from tony.protocol.hello import PeerKind
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Refused
from tony.rpc.sockets import find_peer_process, reset_at_close, watch_for_death

if TYPE_CHECKING:
    from tony.rpc.tls_pipe import TlsPipe

#: Bytes read from a socket, and written to it, at a time.
READ_SIZE = 2**16
#: Maximum characters of the other side's code and text in an error.
_MAX_CODE_CHARACTERS = 40
_MAX_TEXT_CHARACTERS = 500
#: Seconds that a closing connection waits for the other side to receive the last data and to close.
LINGER_SECONDS = 2.0


class Phase(Enum):
    """The phase of a connection. It only moves down this list."""

    SECURING = "securing"  #: TLS handshake
    GREETING = "greeting"  #: hello and answer
    OPEN = "open"  #: messages
    CLOSING = "closing"  #: this side is done; further data is discarded
    CLOSED = "closed"  #: the socket is closed


class ConnectionSide(ABC):
    """Differences between the listening and the connecting side. Called by `RpcConnection` only."""

    #: Size of the other side's greeting in bytes.
    greeting_size: int
    #: Maximum bytes of incoming and outgoing frames.
    limit_in: int
    limit_out: int

    @abstractmethod
    def on_transport(self, connection: RpcConnection) -> None:
        """Handle a new transport."""

    def may_secure(self, connection: RpcConnection, data: memoryview) -> bool:
        """Return False to leave a TLS handshake unanswered. `data`: the bytes of it that have just arrived."""
        return True

    def build_greeting(self) -> bytes:
        """Return what to send once the connection is secure."""
        return b""

    @abstractmethod
    def on_greeting(self, connection: RpcConnection, data: bytes) -> tuple[PeerKind, bytes]:
        """Check the other side's greeting; return the kind of the connecting peer, and what to send.

        Raises:
            ProtocolError: the connection ends, after `build_refusal` of it was sent.
        """

    def build_refusal(self, error: ProtocolError) -> bytes:
        """Return what to send when `on_greeting` refused."""
        return b""

    @abstractmethod
    def on_open(self, connection: RpcConnection) -> None:
        """Handle that messages may be sent from now on."""

    @abstractmethod
    def on_message(self, connection: RpcConnection, message: Message) -> None:
        """Handle a message."""

    async def take(self, connection: RpcConnection) -> Message | None:
        """Return the next queued message; None at the end. Only where `on_message` queues them."""
        raise RuntimeError("the messages of this connection go to the server's handler")

    @abstractmethod
    def on_end(self, connection: RpcConnection) -> None:
        """Handle that nothing more will be received; `connection.error` says why. `on_closed` follows."""

    @abstractmethod
    def on_closed(self, connection: RpcConnection, was: Phase) -> None:
        """Handle the end of a connection, opened or not; `was` is the phase in which its end began."""


class RpcConnection(asyncio.BufferedProtocol):
    """One connection between a peer and its AM.

    Attributes:
        kind: the kind of the connecting side; valid once the connection is open.
        peer: the other end, for logs: `10.0.0.3:4711` or `pid 123`.
        error: why it ended, once it has; None after an orderly end.
        closed_by_peer: whether the other side ended it in order.
        tag: for the user of the connection; not used here.
    """

    __slots__ = (
        "_buffer",
        "_decoder",
        "_drained",
        "_end_phase",
        "_greeting",
        "_lingering",
        "_outbox",
        "_over",
        "_paused",
        "_phase",
        "_side",
        "_tls",
        "_transport",
        "_waiting",
        "closed_by_peer",
        "error",
        "kind",
        "peer",
        "tag",
    )

    def __init__(self, side: ConnectionSide, buffer: bytearray, kind: PeerKind, tls: TlsPipe | None) -> None:
        """Made by `connect` and `RpcServer` only.

        Args:
            buffer: what the transport reads into; may be shared by all connections of one event loop.
        """
        self._side = side
        self._buffer = buffer
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._phase = Phase.SECURING
        self._end_phase: Phase | None = None
        self._greeting = b""
        self._decoder: Decoder | None = None
        self._outbox: list[memoryview] = []
        self._waiting = 0
        self._paused = False
        self._drained: asyncio.Future[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self.error: ProtocolError | ConnectionFailedError | None = None
        self.closed_by_peer = False
        self.kind = kind
        self.peer = "unknown"
        self.tag: object = None

    # --- for users of the connection ------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True if messages can be sent."""
        return self._phase is Phase.OPEN

    @property
    def is_finished(self) -> bool:
        """True if nothing more will be received."""
        return self._phase in (Phase.CLOSING, Phase.CLOSED)

    @property
    def backlog(self) -> int:
        """Bytes given to `send` that the kernel has not taken yet, because the other side reads too slowly."""
        return 0 if self._transport is None else self._waiting + self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        """True if more was sent than the other side takes now: senders should wait for `drain`."""
        return self._paused

    @property
    def hung_up(self) -> bool:
        """True if the other side has closed the connection. Works even while reading is paused."""
        return self._transport is None or self._transport.is_closing() or self._has_socket_event(select.POLLRDHUP)

    @property
    def is_encrypted(self) -> bool:
        """True with TLS."""
        return self._tls is not None

    @property
    def has_unread(self) -> bool:
        """True if the kernel has unread data of the other side, or its end."""
        return self._has_socket_event(select.POLLIN)

    def _has_socket_event(self, event: int) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), event)
        return bool(poll.poll(0))

    def proves(self, name: str) -> bool:
        """Return True if the other end's certificate has that name; always without TLS."""
        return self._tls is None or self._tls.is_peer(name)

    def send(self, message: Message) -> None:
        """Send a message. On a closed connection it is discarded.

        Raises:
            ProtocolError: `too-long`, before anything was sent.
        """
        self.send_frame(encode(message, self._side.limit_out))

    def send_frame(self, frame: bytes) -> None:
        """Send a frame made by `framing.encode`, perhaps the same one to many peers.

        The connection is aborted if more than two of the largest frames are waiting for the peer to read.
        """
        if self._phase is not Phase.OPEN or self._transport is None or self._transport.is_closing():
            return
        self._write(frame)
        if self.backlog > 2 * self._side.limit_out:
            self.abort(ProtocolError(Code.SLOW_READER, f"{self.peer} does not read: {self.backlog} bytes wait for it"))

    async def receive(self) -> Message | None:
        """Return the next message; None once the connection has ended, orderly or not (see `error`).

        Only for connections made with `connect` (those of a server pass their messages to its handler), and for one
        receiver at a time.

        Raises:
            ProtocolError: the other side refused (with its code), or broke the protocol.
        """
        return await self._side.take(self)

    def pause_reading(self) -> None:
        """Leave incoming data in the kernel, so that the sender slows down."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    async def drain(self) -> None:
        """Wait until little is left to send. Returns at once when the connection has ended."""
        if self._paused:
            await asyncio.shield(self._wait_drained())

    def call_when_drained(self, call: Callable[[], None]) -> None:
        """Call back once little is left to send, or the connection has ended. Only if `is_full`."""
        self._wait_drained().add_done_callback(lambda _: call())

    def _wait_drained(self) -> asyncio.Future[None]:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        return self._drained

    def refuse(self, code: Code, reason: str) -> None:
        """Send the other side the reason of the refusal, and close."""
        self._fail(ProtocolError(code, reason))

    def close(self) -> None:
        """Close the connection once the other side has received everything; after `LINGER_SECONDS` seconds anyway."""
        self._close(None)

    def abort(self, error: ProtocolError | ConnectionFailedError | None = None, *, reset: bool = False) -> None:
        """Close the connection at once; unsent data is lost. `error` is the reason, if it is the other side's fault.

        Args:
            reset: discard data in the kernel's buffer too, so that a peer that does not read notices.
        """
        self._end(error)
        self._outbox.clear()
        self._waiting = 0
        if self._transport is not None and self._phase is not Phase.CLOSED:
            self._phase = Phase.CLOSING
            if reset:
                reset_at_close(self._transport)
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the connection is fully closed."""
        if self._phase is not Phase.CLOSED:
            if self._over is None:
                self._over = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._over)

    # --- called by the transport ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock: socket.socket = transport.get_extra_info("socket")
        error: ProtocolError | ConnectionFailedError | None = None
        try:
            if sock.family == socket.AF_UNIX:
                self.peer = f"pid {find_peer_process(sock)}"
            else:
                self.peer = _format_tcp_peer(transport)
                watch_for_death(sock)
        except ProtocolError as refusal:
            error = refusal
        except OSError as broken:
            error = ConnectionFailedError(f"{self.peer} is gone: {broken}")
        self._side.on_transport(self)
        if error is not None:
            self.abort(error)
        elif self._tls is None:
            self._on_secured()
        else:
            self._transport.write(self._tls.start())

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = memoryview(self._buffer)[:nbytes]
        if self._phase is Phase.CLOSING:
            return
        if self._tls is None:
            self._receive_plain(data)
            return
        if self._phase is Phase.SECURING and not self._side.may_secure(self, data):
            self.pause_reading()
            return
        self._receive_encrypted(self._tls, data)

    def eof_received(self) -> bool:
        """End the connection: the other side sends no more."""
        if self._phase is not Phase.CLOSING:
            self._end(None, by_peer=True)
            self._linger()
        return False

    def pause_writing(self) -> None:
        """Stop writing: the transport's buffer is full."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue writing: the transport's buffer is nearly empty."""
        self._paused = False
        self._pump()
        if self._paused:
            return
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        if self._phase is Phase.CLOSING:
            self._shut_down()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(None if exc is None else ConnectionFailedError(f"the connection to {self.peer} broke: {exc}"))
        self._phase = Phase.CLOSED
        self._transport = None
        if self._lingering is not None:
            self._lingering.cancel()
        self._outbox.clear()
        self._waiting = 0
        self.resume_writing()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        self._decoder = self._tls = None
        self._side.on_closed(self, self._end_phase or Phase.SECURING)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _receive_encrypted(self, tls: TlsPipe, data: memoryview) -> None:
        pieces = tls.feed(data)
        while self._phase not in (Phase.CLOSING, Phase.CLOSED):
            try:
                plain = next(pieces, None)
            except ProtocolError as error:
                self._flush(tls)
                self._close(error)
                return
            self._flush(tls)
            if plain is None:
                return
            if self._phase is Phase.SECURING:
                self._on_secured()
            elif plain:
                self._receive_plain(plain)
            else:
                self._end(None, by_peer=True)
                self._close(None)

    def _flush(self, tls: TlsPipe) -> None:
        outgoing = tls.take_outgoing()
        if outgoing and self._transport is not None:
            self._transport.write(outgoing)

    def _on_secured(self) -> None:
        self._phase = Phase.GREETING
        self._write(self._side.build_greeting())

    def _receive_plain(self, data: bytes | memoryview) -> None:
        if self._phase is Phase.GREETING:
            missing = self._side.greeting_size - len(self._greeting)
            self._greeting += data[:missing]
            if len(data) < missing or not self._greet():
                return
            data = data[missing:]
        if self._decoder is None:
            return
        self._decoder.feed(data)
        self._deliver(self._decoder)

    def _greet(self) -> bool:
        try:
            self.kind, answer = self._side.on_greeting(self, self._greeting)
        except ProtocolError as error:
            self._write(self._side.build_refusal(error))
            self._close(error)
            return False
        self._greeting = b""
        self._write(answer)
        self._phase = Phase.OPEN
        self._decoder = Decoder(self._side.limit_in)
        self._side.on_open(self)
        return self._phase is Phase.OPEN

    def _deliver(self, decoder: Decoder) -> None:
        # The receiver of a message may close the connection: the rest is then ignored.
        while self._phase is Phase.OPEN:
            try:
                message = decoder.decode_next()
            except ProtocolError as error:
                self._fail(error)
                return
            if message is None:
                return
            if isinstance(message, Refused):
                cut = message.reason[:_MAX_TEXT_CHARACTERS] + "..." * (len(message.reason) > _MAX_TEXT_CHARACTERS)
                self._close(ProtocolError(message.code[:_MAX_CODE_CHARACTERS], escape(cut)))
                return
            self._side.on_message(self, message)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        self._outbox += (view[start : start + READ_SIZE] for start in range(0, len(view), READ_SIZE))
        self._waiting += len(view)
        self._pump()

    def _pump(self) -> None:
        """Write queued data, as far as the transport takes it."""
        given = 0
        while given < len(self._outbox) and not self._paused and self._transport is not None:
            piece = self._outbox[given]
            given += 1
            self._waiting -= len(piece)
            self._transport.write(piece if self._tls is None else b"".join(self._tls.write(piece)))
        del self._outbox[:given]

    def _fail(self, error: ProtocolError) -> None:
        if self._phase is Phase.OPEN:
            self._write(encode(Refused(code=error.code, reason=str(error))))
        self._close(error)

    def _end(self, error: ProtocolError | ConnectionFailedError | None, *, by_peer: bool = False) -> None:
        if self._end_phase is None:
            self._end_phase = self._phase
            self.error = error
            self.closed_by_peer = by_peer
            self._side.on_end(self)

    def _close(self, error: ProtocolError | ConnectionFailedError | None) -> None:
        """Send what is queued and let the other side close first: closing earlier could destroy data in transit."""
        self._end(error)
        if self._transport is None or self._phase in (Phase.CLOSING, Phase.CLOSED):
            return
        self._linger()
        self._shut_down()

    def _linger(self) -> None:
        self._phase = Phase.CLOSING
        if self._transport is not None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)

    def _shut_down(self) -> None:
        """Shut down this direction once all is sent. The transport's `write_eof` raises if the peer has just gone."""
        if self._transport is None or self._transport.is_closing() or self._outbox:
            return  # `resume_writing` calls this again
        if self._tls is not None and self._tls.secured:
            self._transport.write(self._tls.close())  # empty the second time
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            return
        try:
            self._transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        except OSError:
            self._transport.abort()


def _format_tcp_peer(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")  # None if it has closed already
    return f"{name[0]}:{name[1]}" if name else "unknown"
