"""A fake Hadoop RPC server: the real wire format, handlers supplied by the test, and fault injection.

    server = FakeIpcServer(auths=(Auth.TOKEN,), tokens={b"identifier": b"password"})
    server.on(ALLOCATE, lambda request, call: AllocateResponse(...))
    server.order(DropResponse(executed=True), method="allocate")
    async with server:
        connection = await connect(server.address, Login.with_token(token), protocol=ALLOCATE.protocol)

Handlers are functions or coroutines; they raise `FakeRefusalError` to refuse a call. For clients that block, or run in
other processes, `with server.in_thread():` runs the server and its handlers in a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from tests.support.hadoop.digest_server import CIPHERS, DigestServer, UnknownTokenError
from tests.support.hadoop.faults import (
    Cut,
    DelayResponse,
    Dribble,
    DropResponse,
    Fault,
    FaultMoment,
    Garble,
    HoldResponse,
    Orders,
    Refuse,
    Silence,
)
from tony.address import Address
from tony.hadoop.errors import IpcProtocolError
from tony.hadoop.ipc.frames import MAX_FRAME, FrameReader, build_frame
from tony.hadoop.sasl.digest_layers import Protection, SaslExchangeError, SecurityLayer
from tony.hadoop.wire.proto import MalformedMessageError, ProtoMessage, decode, encode_delimited, read_delimited
from tony.hadoop.wire.rpc import (
    AUTHORIZATION_FAILED_CALL_ID,
    CONNECTION_CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    IpcConnectionContext,
    Method,
    Request,
    RequestHeader,
    Response,
    RpcKind,
    RpcOperation,
    RpcRequestHeader,
    RpcResponseHeader,
    RpcSasl,
    RpcStatus,
    SaslAuth,
    SaslState,
)

_NOT_ENABLED = "SIMPLE authentication is not enabled.  Available:[{}]"
_ACCESS = "org.apache.hadoop.security.AccessControlException"
_IPC = "org.apache.hadoop.ipc."


class Auth(Enum):
    """An authentication method of the port; the values are Hadoop's."""

    SIMPLE = "SIMPLE"
    TOKEN = "TOKEN"


class FakeRefusalError(Exception):
    """Raised by handlers: the Java exception to respond with."""

    def __init__(self, class_name: str, message: str = "", *, fatal: bool = False) -> None:
        self.class_name, self.message, self.fatal = class_name, message, fatal
        super().__init__(f"{class_name}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of a connection.

    Attributes:
        user: from the connection context (SIMPLE); None with a token.
        token: identifier of its token.
        protocol: from the connection context.
        number: of the connection, from 0.
    """

    user: str | None
    real_user: str | None
    token: bytes | None
    protocol: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A received call.

    Attributes:
        method: its Java name.
        request: its argument.
        call_id: with `create_client_id`, identifies the call; a retry has the same one and a higher `retry_count`.
    """

    method: str
    request: ProtoMessage
    caller: Caller
    call_id: int
    client_id: bytes = field(repr=False)
    retry_count: int


Handler = Callable[[Any, Incoming], ProtoMessage | Awaitable[ProtoMessage]]


class FakeIpcServer:
    """The RPC port of one fake daemon.

    Args:
        auths: accepted methods, in order of preference. With SIMPLE alone, a SASL negotiation succeeds without proof.
        tokens: identifier -> password of the known tokens. Not copied: a test may change it.
        protections: offered after a login by token.
        ciphers: offered for privacy.

    Attributes:
        address: of the port, once started; the same after a restart.
        calls: all calls in order of arrival, including refused and dropped ones.
        pings: number of pings received.
        connections: number of connections accepted.
    """

    def __init__(
        self,
        *,
        auths: tuple[Auth, ...] = (Auth.SIMPLE,),
        tokens: Mapping[bytes, bytes] | None = None,
        protections: tuple[Protection, ...] = (Protection.AUTHENTICATION,),
        ciphers: tuple[str, ...] = CIPHERS,
        host: str = "127.0.0.1",
    ) -> None:
        self.auths, self.protections, self.ciphers = auths, protections, ciphers
        self.tokens: Mapping[bytes, bytes] = {} if tokens is None else tokens
        self.address = Address(host=host, port=0)
        self.calls: list[Incoming] = []
        self.pings = 0
        self.connections = 0
        self._methods: dict[tuple[str, str], tuple[type[ProtoMessage], Handler]] = {}
        self._orders = Orders()
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._came = asyncio.Condition()

    def on(
        self,
        method: Method[Request, Response],
        handler: Callable[[Request, Incoming], Response | Awaitable[Response]],
    ) -> None:
        """Set the handler of a method, replacing an earlier one."""
        self._methods[method.protocol, method.name] = (method.request, cast(Handler, handler))

    def order(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        at: FaultMoment = FaultMoment.CALL,
        times: int = 1,
        skip: int = 0,
    ) -> None:
        """Inject a fault.

        Args:
            method: only for calls of this method; None: for any.
            at: when it is injected.
            times: number of injections.
            skip: number of matching calls to let pass before.
        """
        self._orders.order(fault, method=method, at=at, times=times, skip=skip)

    def forgive(self) -> None:
        """Remove all faults."""
        self._orders.clear()

    def named(self, method: str) -> list[Incoming]:
        """Return the calls of one method so far."""
        return [call for call in self.calls if call.method == method]

    async def wait_called(self, method: str, times: int = 1) -> list[Incoming]:
        """Wait for a number of calls of a method; run in the server's event loop."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.named(method)) >= times)
        return self.named(method)

    async def start(self) -> Address:
        """Start to listen; return the address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self), self.address.host, self.address.port)
        self.address = Address(host=self.address.host, port=self._server.sockets[0].getsockname()[1])
        return self.address

    async def stop(self) -> None:
        """Stop abruptly, like a killed process. `start` restarts it on the same port, with its state."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop_all()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop_all(self) -> None:
        """Close all connections, and continue to listen."""
        for link in tuple(self._links):
            link.drop()

    async def __aenter__(self) -> FakeIpcServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @contextmanager
    def in_thread(self) -> Iterator[FakeIpcServer]:
        """Run the server in a thread of its own within the block."""
        started, stop = threading.Event(), asyncio.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def live() -> None:
            loops.append(asyncio.get_running_loop())
            async with self:
                started.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: asyncio.run(live()), name="fake-ipc-server")
        thread.start()
        try:
            if not started.wait(30):
                raise RuntimeError("the fake daemon did not start within 30 s")
            yield self
        finally:
            if loops:
                loops[0].call_soon_threadsafe(stop.set)
            thread.join(30)

    # -- for the links

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note(self, call: Incoming) -> None:
        self.calls.append(call)
        async with self._came:
            self._came.notify_all()

    def _handler(self, protocol: str, method: str) -> tuple[type[ProtoMessage], Handler]:
        found = self._methods.get((protocol, method))
        if found is not None:
            return found
        if any(known == protocol for known, _ in self._methods):
            raise _WrongRequestError(
                f"{_IPC}RpcNoSuchMethodException",
                f"Unknown method {method} called on {protocol} protocol.",
            )
        raise _WrongRequestError(f"{_IPC}RpcNoSuchProtocolException", f"Unknown protocol: {protocol}")


class _WrongRequestError(Exception):
    """An error response of the port itself."""

    def __init__(
        self,
        class_name: str,
        message: str,
        call_id: int = AUTHORIZATION_FAILED_CALL_ID,
    ) -> None:
        self.class_name, self.message, self.call_id = class_name, message, call_id
        super().__init__(message)


class _Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: FakeIpcServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._preamble = b""
        self._outer, self._inner = FrameReader(MAX_FRAME), FrameReader(MAX_FRAME)
        self._digest: DigestServer | None = None
        self._layer: SecurityLayer | None = None
        self._wants_context = False
        self._caller: Caller | None = None
        self._number = server.connections
        self._is_mute = False

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections += 1
        self._server._links.add(self)
        fault = self._server._orders.next(FaultMoment.CONNECT)
        if fault is not None:
            self._strike(fault)

    def connection_lost(self, error: Exception | None) -> None:
        self._server._links.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._is_mute:
            return
        try:
            if len(self._preamble) < 7:
                needed = 7 - len(self._preamble)
                self._preamble += data[:needed]
                data = data[needed:]
                if len(self._preamble) == 7:
                    self._read_preamble()
            if len(self._preamble) == 7 and data:
                for frame in self._outer.feed(data):
                    self._take(frame)
        except _WrongRequestError as wrong:
            self._fail(wrong)
        except (IpcProtocolError, SaslExchangeError, MalformedMessageError):
            self.drop()

    def drop(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    # -- opening

    def _read_preamble(self) -> None:
        if self._preamble[:4] != b"hrpc":
            if self._transport is not None:
                self._transport.write(
                    b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\nIt looks like you are"
                )
                self._transport.close()
            return
        if self._preamble[4] != 9:
            raise _WrongRequestError(f"{_IPC}RPC$VersionMismatch", "Server IPC version 9 cannot communicate")
        if self._preamble[6] == 0:
            if Auth.SIMPLE not in self._server.auths:
                names = ", ".join(auth.value for auth in self._server.auths)
                raise _WrongRequestError(_ACCESS, _NOT_ENABLED.format(names))
            self._wants_context = True
        elif self._preamble[6] != 0xDF:
            raise _WrongRequestError(f"{_IPC}IpcException", "Unknown auth protocol")

    def _take(self, frame: bytes) -> None:
        if self._layer is None:
            self._packet(frame)
            return
        header, offset = self._header(frame)
        if header.call_id != SASL_CALL_ID:
            raise _WrongRequestError(_ACCESS, "a packet without protection")
        message = decode(RpcSasl, read_delimited(frame, offset)[0])
        for inner in self._inner.feed(self._layer.unwrap(message.token or b"")):
            self._packet(inner)

    @staticmethod
    def _header(frame: bytes) -> tuple[RpcRequestHeader, int]:
        data, offset = read_delimited(frame, 0)
        header = decode(RpcRequestHeader, data)
        if header.rpc_op is not RpcOperation.FINAL_PACKET or header.rpc_kind is not RpcKind.PROTOCOL_BUFFER:
            raise _WrongRequestError(f"{_IPC}IpcException", "IPC Server: rpc operation or kind is not set")
        return header, offset

    def _packet(self, frame: bytes) -> None:
        header, offset = self._header(frame)
        if header.call_id == PING_CALL_ID:
            self._server.pings += 1
        elif header.call_id == SASL_CALL_ID:
            self._log_in(decode(RpcSasl, read_delimited(frame, offset)[0]))
        elif header.call_id == CONNECTION_CONTEXT_CALL_ID:
            self._read_context(decode(IpcConnectionContext, read_delimited(frame, offset)[0]))
        elif self._caller is None:
            raise _WrongRequestError(f"{_IPC}IpcException", "Connection context not established")
        else:
            self._call(header, frame, offset)

    def _read_context(self, context: IpcConnectionContext) -> None:
        if not self._wants_context or self._caller is not None:
            raise _WrongRequestError(f"{_IPC}IpcException", "Connection context out of turn")
        user = context.user
        name = user.effective_user if user else None
        if self._digest is not None and name is not None:
            text = f"Authenticated user doesn't match what the client claims to be ({name})"
            raise _WrongRequestError(_ACCESS, text, CONNECTION_CONTEXT_CALL_ID)
        self._caller = Caller(
            user=name,
            real_user=user.real_user if user else None,
            token=self._digest.identifier if self._digest else None,
            protocol=context.protocol or "",
            number=self._number,
        )

    # -- logging in

    def _log_in(self, message: RpcSasl) -> None:
        fault = self._server._orders.next(FaultMoment.LOGIN)
        if fault is not None and self._strike(fault, SASL_CALL_ID):
            return
        if message.state is SaslState.NEGOTIATE:
            self._offer()
        elif message.state is SaslState.INITIATE:
            self._initiate(message)
        else:
            raise _WrongRequestError("javax.security.sasl.SaslException", "out of turn", SASL_CALL_ID)

    def _offer(self) -> None:
        if self._server.auths == (Auth.SIMPLE,):
            self._wants_context = True
            self._say(RpcSasl(state=SaslState.SUCCESS))
            return
        self._digest = DigestServer(self._server.tokens.get, self._server.protections, self._server.ciphers)
        self._say(RpcSasl(state=SaslState.NEGOTIATE, auths=tuple(map(self._entry, self._server.auths))))

    def _entry(self, auth: Auth) -> SaslAuth:
        if auth is Auth.SIMPLE:
            return SaslAuth(method="SIMPLE", mechanism="")
        assert self._digest is not None
        return SaslAuth(
            method="TOKEN",
            mechanism="DIGEST-MD5",
            protocol="",
            server_id="default",
            challenge=self._digest.challenge(),
        )

    def _initiate(self, message: RpcSasl) -> None:
        auth = message.auths[0] if len(message.auths) == 1 else None
        if auth == SaslAuth(method="SIMPLE", mechanism="") and Auth.SIMPLE in self._server.auths:
            self._digest = None
            self._wants_context = True  # the protocol sends no response
            return
        expected = SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="default")
        if auth != expected or Auth.TOKEN not in self._server.auths or self._digest is None:
            self._offer()
            return
        try:
            proof = self._digest.evaluate(message.token or b"")
        except UnknownTokenError:
            raise _WrongRequestError(
                "org.apache.hadoop.security.token.SecretManager$InvalidToken",
                "token can't be found in cache",
                SASL_CALL_ID,
            ) from None
        except SaslExchangeError as error:
            raise _WrongRequestError("javax.security.sasl.SaslException", str(error), SASL_CALL_ID) from error
        self._say(RpcSasl(state=SaslState.SUCCESS, token=proof))
        self._layer = self._digest.layer()
        self._wants_context = True

    def _say(self, message: RpcSasl) -> None:
        header = RpcResponseHeader(unsigned_call_id=SASL_CALL_ID & 0xFFFFFFFF, status=RpcStatus.SUCCESS)
        assert self._transport is not None
        self._transport.write(build_frame(encode_delimited(header), encode_delimited(message)))

    # -- calls

    def _call(self, header: RpcRequestHeader, frame: bytes, offset: int) -> None:
        data, offset = read_delimited(frame, offset)
        what = decode(RequestHeader, data)
        try:
            cls, handler = self._server._handler(what.protocol, what.method_name)
        except _WrongRequestError as wrong:
            self._answer_error(header, wrong.class_name, wrong.message)
            return
        assert self._caller is not None
        call = Incoming(
            method=what.method_name,
            request=decode(cls, read_delimited(frame, offset)[0]),
            caller=self._caller,
            call_id=header.call_id,
            client_id=header.client_id,
            retry_count=header.retry_count,
        )
        fault = self._server._orders.next(FaultMoment.CALL, call.method)
        self._server._spawn(self._perform(header, call, handler, fault))

    async def _perform(self, header: RpcRequestHeader, call: Incoming, handler: Handler, fault: Fault | None) -> None:
        await self._server._note(call)
        if isinstance(fault, HoldResponse) and not fault.executed:
            await fault.wait_released()
        if isinstance(fault, Refuse | Garble) or (isinstance(fault, DropResponse | Silence) and not fault.executed):
            self._strike(fault, header.call_id)
            return
        try:
            answer = handler(call.request, call)
            response = await answer if inspect.isawaitable(answer) else answer
        except FakeRefusalError as refusal:
            self._answer_error(header, refusal.class_name, refusal.message, fatal=refusal.fatal)
            return
        if isinstance(fault, DelayResponse):
            await asyncio.sleep(fault.seconds)
        elif isinstance(fault, HoldResponse) and fault.executed:
            await fault.wait_released()
        elif isinstance(fault, DropResponse | Silence):
            self._strike(fault, header.call_id)
            return
        await self._answer(header, response, fault)

    async def _answer(self, header: RpcRequestHeader, response: ProtoMessage, fault: Fault | None) -> None:
        data = self._sealed(build_frame(encode_delimited(self._success(header)), encode_delimited(response)))
        if isinstance(fault, Cut):
            self._write(data[: fault.after])
            if self._transport is not None:
                self._transport.close()
        elif isinstance(fault, Dribble):
            for at in range(0, len(data), fault.size):
                self._write(data[at : at + fault.size])
                await asyncio.sleep(0)
        else:
            self._write(data)

    @staticmethod
    def _success(header: RpcRequestHeader) -> RpcResponseHeader:
        return RpcResponseHeader(
            unsigned_call_id=header.call_id & 0xFFFFFFFF,
            status=RpcStatus.SUCCESS,
        )

    def _answer_error(self, header: RpcRequestHeader, class_name: str, message: str, *, fatal: bool = False) -> None:
        self._write(self._sealed(_error(header.call_id, class_name, message, fatal=fatal)))
        if fatal and self._transport is not None:
            self._transport.close()

    def _fail(self, wrong: _WrongRequestError) -> None:
        self._write(self._sealed(_error(wrong.call_id, wrong.class_name, wrong.message, fatal=True)))
        self._is_mute = True
        if self._transport is not None:
            self._transport.close()

    def _strike(self, fault: Fault, call_id: int = AUTHORIZATION_FAILED_CALL_ID) -> bool:
        """Inject a fault that needs no response; return False for any other fault."""
        if isinstance(fault, DropResponse):
            self.drop()
        elif isinstance(fault, Silence):
            self._is_mute = call_id < 0
        elif isinstance(fault, Garble):
            self._write(fault.data)
        elif isinstance(fault, Refuse):
            is_fatal = fault.fatal or call_id < 0
            self._write(self._sealed(_error(call_id, fault.class_name, fault.message, fatal=is_fatal)))
            if is_fatal and self._transport is not None:
                self._transport.close()
        else:
            return False
        return True

    def _sealed(self, data: bytes) -> bytes:
        if self._layer is None:
            return data
        message = RpcSasl(state=SaslState.WRAP, token=self._layer.wrap(data))
        header = RpcResponseHeader(unsigned_call_id=SASL_CALL_ID & 0xFFFFFFFF, status=RpcStatus.SUCCESS)
        return build_frame(encode_delimited(header), encode_delimited(message))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _error(call_id: int, class_name: str, message: str, *, fatal: bool) -> bytes:
    return build_frame(
        encode_delimited(
            RpcResponseHeader(
                unsigned_call_id=call_id & 0xFFFFFFFF,
                status=RpcStatus.FATAL if fatal else RpcStatus.ERROR,
                exception_class=class_name,
                error_message=f"{message}\n\tat org.apache.hadoop.Fake.here(Fake.java:1)",
            )
        )
    )
