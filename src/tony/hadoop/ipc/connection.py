"""A connection to a Hadoop daemon: concurrent calls, responses in any order.

    connection = await connect(address, LoginIdentity(user="alice"), protocol=SUBMIT.protocol)
    try:
        answer = await connection.call(SUBMIT, request)
    finally:
        await connection.close()

A broken connection stays broken (`is_open` is False); connect again to get a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import NamedTuple, cast

from tony.address import Address
from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectFailure,
    ConnectionLostError,
    HadoopError,
    IpcProtocolError,
    LoginDroppedError,
    RemoteError,
    build_remote_error,
)
from tony.hadoop.ipc.frames import (
    PREAMBLE_SASL,
    PREAMBLE_SIMPLE,
    CallId,
    FrameReader,
    RpcResponse,
    build_sasl_frame,
    call_frame,
    ping_frame,
    read_answer,
)
from tony.hadoop.ipc.login import LoginIdentity, LoginMethod, Negotiation
from tony.hadoop.ipc.tcp_connection import DEFAULTS, ConnectionOptions, dial
from tony.hadoop.sasl.digest_layers import SaslExchangeError, SecurityLayer
from tony.hadoop.wire.rpc import SASL_CALL_ID, Method, Request, Response, RpcSasl, RpcStatus, SaslState

#: What sealing adds to an answer of the greatest length.
_SEAL = 1 << 16


async def connect(
    address: Address, login: LoginIdentity, *, protocol: str, options: ConnectionOptions = DEFAULTS
) -> IpcConnection:
    """Connect and log in.

    With SIMPLE the daemon is not asked anything before the first call, so a refusal shows there.

    Args:
        protocol: of the connection context; a daemon may serve several, and each call names its own.

    Raises:
        ConnectError: connection refused, unknown host, or no response in time.
        LoginError: authentication failed: no common method, or one side rejected the other.
        RemoteError: the daemon refused the login with an exception (`SaslError`, `InvalidTokenError`...).
        IpcProtocolError, ConnectionLostError: the other side is no Hadoop daemon, or went away.
    """
    sock = await dial(address, options)
    connection = IpcConnection(address, protocol, login, options)
    try:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
    except BaseException:
        sock.close()
        raise
    try:
        async with asyncio.timeout(options.login_timeout):
            await connection._log_in()
    except TimeoutError:
        connection._abort()
        raise ConnectError(
            f"{address} did not respond to the login within {options.login_timeout:g} s",
            ConnectFailure.TIMED_OUT,
        ) from None
    except BaseException:
        connection._abort()
        raise
    return connection


class _Pending(NamedTuple):
    """A call that waits for its answer."""

    method: str
    answer: asyncio.Future[RpcResponse]


class IpcConnection(asyncio.Protocol):
    """Made by `connect`.

    Attributes:
        address: address of the daemon.
        protocol: what its context names.
    """

    def __init__(self, address: Address, protocol: str, login: LoginIdentity, options: ConnectionOptions) -> None:
        self.address, self.protocol = address, protocol
        self._login, self._options = login, options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._negotiation = Negotiation(login, address)
        self._reader = FrameReader(options.max_answer + _SEAL)
        self._inner = FrameReader(options.max_answer)
        self._layer: SecurityLayer | None = None
        self._is_ready = False
        self._steps: deque[bytes] = deque()
        self._step_arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._held = b""
        self._pending: dict[int, _Pending] = {}
        self._last_received_at = 0.0
        self._ping: asyncio.TimerHandle | None = None
        self._error: HadoopError | None = None
        self._is_closing = False
        self._closed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """True while calls can be sent. May turn False at any time."""
        return self._is_ready and self._error is None and not self._is_closing and not self._closed.is_set()

    @property
    def pending(self) -> int:
        """The number of calls that wait for their answers."""
        return len(self._pending)

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout: float | None = None,
        retry: CallId | None = None,
    ) -> Response:
        """Call a method and wait for the response. Cancelling the wait does not cancel the call in the daemon.

        Args:
            timeout: seconds; None for the timeout of the options.
            retry: id of the call, for callers that may repeat it (`CallId.from_new`, `to_retry`).

        Raises:
            RemoteError: what the daemon answered, by the name of the Java exception.
            ConnectionLostError: the connection broke, or was broken before (`maybe_executed`).
            CallTimeoutError: no answer in time.
        """
        call = retry or CallId.from_new()
        frame = call_frame(method, request, call)
        self._require_open(method)
        if call.number in self._pending:
            raise ValueError(f"call {call.number} is already in flight")
        waiting = _Pending(self._format_name(method), self._loop.create_future())
        self._pending[call.number] = waiting
        limit = self._options.call_timeout if timeout is None else timeout
        try:
            self._send(frame)
            self._watch()
            async with asyncio.timeout(limit):
                await self._writable.wait()
                answer = await waiting.answer
        except TimeoutError:
            raise CallTimeoutError(
                f"{waiting.method}: {self.address} did not respond within {limit:g} s; "
                "the daemon may be overloaded or suspended"
            ) from None
        finally:
            self._pending.pop(call.number, None)
            if waiting.answer.done() and not waiting.answer.cancelled():
                waiting.answer.exception()  # reported already, or no longer of interest
        try:
            return answer.decode_response(method.response)
        except IpcProtocolError as error:
            raise IpcProtocolError(f"{waiting.method}: {error}") from error

    async def close(self) -> None:
        """Close the connection; pending calls fail. Idempotent."""
        self._is_closing = True
        self._abort()
        await self._closed.wait()

    # -- logging in

    async def _log_in(self) -> None:
        negotiation = self._negotiation
        if negotiation.done:
            self._held = PREAMBLE_SIMPLE
        else:
            self._write(PREAMBLE_SASL + negotiation.begin())
        while not negotiation.done:
            message = self._decode_step(await self._receive_next_step())
            if self._login.method is LoginMethod.KERBEROS:
                reply = await self._loop.run_in_executor(None, negotiation.receive, message)
            else:
                reply = negotiation.receive(message)
            self._write(reply)
        self._layer = negotiation.layer
        self._is_ready = True
        # Held back until the first call: a refusing daemon sends the reason only while the connection is open.
        self._held += self._seal(negotiation.build_context(self.protocol))
        for frame in self._steps:
            self._take(frame)

    async def _receive_next_step(self) -> bytes:
        while not self._steps:
            if self._error is not None:
                raise self._error
            self._step_arrived.clear()
            await self._step_arrived.wait()
        return self._steps.popleft()

    def _decode_step(self, frame: bytes) -> RpcSasl:
        try:
            answer = read_answer(frame)
            if answer.header.status is not RpcStatus.SUCCESS:
                raise self._build_refusal(answer, f"cannot log in at {self.address}")
            if answer.header.call_id != SASL_CALL_ID:
                raise IpcProtocolError(f"received a response to call {answer.header.call_id} during the login")
            return answer.decode_sasl()
        except IpcProtocolError as error:
            raise IpcProtocolError(f"{self._format_where()}: {error}") from error

    # -- out

    def _send(self, frame: bytes) -> None:
        data = self._seal(frame)
        if self._held:
            data, self._held = self._held + data, b""
        self._write(data)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _seal(self, data: bytes) -> bytes:
        layer = self._layer
        if layer is None:
            return data
        pieces = (data[at : at + layer.limit] for at in range(0, len(data), layer.limit))
        return b"".join(build_sasl_frame(RpcSasl(state=SaslState.WRAP, token=layer.wrap(piece))) for piece in pieces)

    def _watch(self) -> None:
        """Schedule pings while calls are pending and the daemon is silent."""
        self._last_received_at = self._loop.time()
        if self._ping is None:
            self._ping = self._loop.call_later(self._options.ping_interval, self._ping_if_silent)

    def _ping_if_silent(self) -> None:
        self._ping = None
        if not self._pending or not self.is_open:
            return
        left = self._last_received_at + self._options.ping_interval - self._loop.time()
        if left <= 0:
            self._send(ping_frame())
            left = self._options.ping_interval
        self._ping = self._loop.call_later(left, self._ping_if_silent)

    # -- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        """Hold callers back until the daemon has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let callers continue."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Take the next bytes of the daemon."""
        self._last_received_at = self._loop.time()
        try:
            frames = self._reader.feed(data)
        except IpcProtocolError as error:
            self._break(IpcProtocolError(f"{self._format_where()}: {error}"))
            return
        if not self._is_ready:
            self._steps.extend(frames)
            self._step_arrived.set()
            return
        for frame in frames:
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        if self._error is not None:
            return
        try:
            answer = read_answer(frame)
            if self._layer is None:
                self._deliver(answer)
                return
            for inner in self._inner.feed(self._unseal(self._layer, answer)):
                self._deliver(read_answer(inner))
        except (IpcProtocolError, SaslExchangeError) as error:
            self._break(IpcProtocolError(f"{self._format_where()}: {error}"))

    @staticmethod
    def _unseal(layer: SecurityLayer, answer: RpcResponse) -> bytes:
        if answer.header.call_id != SASL_CALL_ID or answer.header.status is not RpcStatus.SUCCESS:
            raise IpcProtocolError("received a response without the negotiated protection")
        message = answer.decode_sasl()
        if message.state is not SaslState.WRAP or message.token is None:
            raise IpcProtocolError("received a login message after the login")
        return layer.unwrap(message.token)

    def _deliver(self, answer: RpcResponse) -> None:
        header = answer.header
        if header.status is RpcStatus.FATAL:
            self._break(self._build_refusal(answer, self._format_where()), answer)
            return
        waiting = self._pending.get(header.call_id)
        if waiting is None or waiting.answer.done():
            return  # the caller no longer waits for it
        if header.status is RpcStatus.SUCCESS:
            waiting.answer.set_result(answer)
        else:
            waiting.answer.set_exception(self._build_refusal(answer, waiting.method))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all pending calls."""
        if self._error is None:
            self._error = self._find_reason(error)
            if self._reader.waits and not self._is_closing:
                self._error = ConnectionLostError(f"{self._error}, in the middle of a response")
        self._fail_all(self._error)
        self._closed.set()
        self._step_arrived.set()
        self._writable.set()
        if self._ping is not None:
            self._ping.cancel()
        self._negotiation.close()

    def _find_reason(self, error: Exception | None) -> HadoopError:
        if self._is_closing:
            return ConnectionLostError(f"{self._format_where()}: the client closed the connection")
        reason = f": {error.strerror or error}" if isinstance(error, OSError) else ""
        if self._is_ready:
            return ConnectionLostError(f"{self._format_where()}: the daemon closed the connection{reason}")
        text = f"{self._format_where()}: the daemon closed the connection during the login{reason}"
        if self._negotiation.begun and self._login.method is LoginMethod.TOKEN:
            text += (
                ". If this happens again, the daemon cannot read the token: "
                "check that the token is from this cluster and for this kind of daemon."
            )
        return LoginDroppedError(text, maybe_executed=False)

    def _break(self, error: HadoopError, answer: RpcResponse | None = None) -> None:
        """Close a connection that is no longer usable."""
        if self._error is None:
            self._error = error
        if answer is not None:
            # The answer may name a call, which fails with it; the others fail with the connection.
            waiting = self._pending.get(answer.header.call_id)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_exception(self._build_refusal(answer, waiting.method))
        self._fail_all(self._error)
        self._step_arrived.set()
        self._abort()

    def _fail_all(self, error: HadoopError) -> None:
        for waiting in self._pending.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(_copy(error))

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _require_open(self, method: Method[Request, Response]) -> None:
        if self.is_open:
            return
        error = self._error
        if isinstance(error, ConnectionLostError) or error is None:
            reason = str(error) if error else f"{self._format_name(method)}: the connection is closed"
            raise ConnectionLostError(reason, maybe_executed=False)
        raise _copy(error)

    def _build_refusal(self, answer: RpcResponse, where: str) -> RemoteError:
        header = answer.header
        return build_remote_error(
            header.exception_class or "",
            header.error_message or "",
            where=where,
            fatal=header.status is RpcStatus.FATAL,
        )

    def _format_name(self, method: Method[Request, Response]) -> str:
        return f"{self.address} {_shorten(method.protocol)}.{method.name}"

    def _format_where(self) -> str:
        return f"{self.address} {_shorten(self.protocol)}"


def _shorten(protocol: str) -> str:
    return protocol.rpartition(".")[2].removesuffix("PB")


def _copy(error: HadoopError) -> HadoopError:
    """Return a copy of an error for another waiter: each needs its own traceback."""
    made = type(error).__new__(type(error))
    made.args = error.args
    with suppress(AttributeError):
        made.__dict__.update(error.__dict__)
    return made
