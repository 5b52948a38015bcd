"""Connections to a fake daemon: logins, calls that overtake each other, and everything that goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from tests.facts import mentions
from tests.hadoop.ipc.echo import ALICE, ECHO, PROTOCOL, TOKEN, TOKENS, WHO, Said, daemon
from tests.support.hadoop.faults import (
    Cut,
    DelayResponse,
    Dribble,
    DropResponse,
    FaultMoment,
    Garble,
    HoldResponse,
    Refuse,
    Silence,
    standby,
)
from tests.support.hadoop.ipc_server import Auth, FakeIpcServer
from tests.support.waiting import wait_until
from tony.address import Address
from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectFailure,
    ConnectionLostError,
    IpcProtocolError,
    LoginDroppedError,
    LoginError,
    RemoteError,
    StandbyError,
)
from tony.hadoop.ipc.connection import IpcConnection, connect
from tony.hadoop.ipc.frames import CallId
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.ipc.tcp_connection import ConnectionOptions
from tony.hadoop.sasl.digest_layers import Protection

BY_TOKEN = LoginIdentity(token=TOKEN)
ONLY_TOKEN = (Auth.TOKEN,)


async def _to(server: FakeIpcServer, login: LoginIdentity = ALICE, **options: float) -> IpcConnection:
    return await connect(server.address, login, protocol=PROTOCOL, options=ConnectionOptions(**options))  # type: ignore[arg-type]


async def test_a_call() -> None:
    """What was asked arrives, and so does the answer."""
    async with daemon() as server:
        connection = await _to(server)
        answer = await connection.call(ECHO, Said(text="hello", number=-1, data=b"\0\xff"))
        assert Said(text="hello", number=-1, data=b"\0\xff") == answer
        assert await connection.call(ECHO, Said()) == Said()
        assert connection.is_open
        await connection.close()
        await connection.close()
        assert not connection.is_open


@pytest.mark.parametrize("protection", Protection)
@pytest.mark.parametrize("auths", [(Auth.TOKEN,), (Auth.TOKEN, Auth.SIMPLE), (Auth.SIMPLE, Auth.TOKEN)])
async def test_token(protection: Protection, auths: tuple[Auth, ...]) -> None:
    """A token lets one in, under all protections, whatever else the daemon takes."""
    async with daemon(auths=auths, tokens=TOKENS, protections=(protection,)) as server:
        connection = await _to(server, BY_TOKEN)
        assert (await connection.call(WHO, Said())).text == f"None None {TOKEN.identifier!r}"
        for size in (0, 1, 7, 8, 60_000, 200_000):
            assert (await connection.call(ECHO, Said(data=b"x" * size))).data == b"x" * size
        await connection.close()


async def test_protections_that_do_not_meet() -> None:
    """We insist on privacy, and the daemon has none."""
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS) as server:
        with pytest.raises(LoginError, match=r"privacy.*authentication.*hadoop\.rpc\.protection"):
            await _to(server, LoginIdentity(token=TOKEN, protections=(Protection.PRIVACY,)))


async def test_our_order_of_protections_counts() -> None:
    """Of what the daemon offers we take what we prefer."""
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS, protections=tuple(Protection)) as server:
        login = LoginIdentity(token=TOKEN, protections=(Protection.PRIVACY, Protection.INTEGRITY))
        connection = await _to(server, login)
        assert (await connection.call(ECHO, Said(text="x"))).text == "x"
        assert "PrivacyLayer" in type(connection._layer).__name__
        await connection.close()


async def test_a_token_that_cannot_be_read() -> None:
    """The daemon closes without a word; the error guesses why."""
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS) as server:
        server.order(DropResponse(), at=FaultMoment.LOGIN, skip=1)
        with pytest.raises(LoginDroppedError, match=f"{server.address}.*token") as caught:
            await _to(server, BY_TOKEN)
        assert not caught.value.maybe_executed


async def test_a_daemon_that_wants_no_proof() -> None:
    """It is believed only where the settings allow it."""
    key = r"ipc\.client\.fallback-to-simple-auth-allowed"
    async with daemon() as server:
        with pytest.raises(LoginError, match=rf"{server.address}.*TOKEN.*{key}"):
            await _to(server, BY_TOKEN)
        connection = await _to(server, LoginIdentity(token=TOKEN, fallback_to_simple=True, user="alice"))
        assert (await connection.call(WHO, Said())).text == "alice None None"
        await connection.close()


async def test_answers_overtake_each_other() -> None:
    """Each caller gets its own answer, in whatever order they come."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(DelayResponse(seconds=0.05), times=1)
        slow = asyncio.create_task(connection.call(ECHO, Said(number=0)))
        numbers = await asyncio.gather(*(connection.call(ECHO, Said(number=each)) for each in range(1, 50)))
        assert list(range(1, 50)) == [said.number for said in numbers]
        assert not slow.done()
        assert (await slow).number == 0
        assert server.connections == 1
        await connection.close()


@pytest.mark.parametrize("protection", Protection)
async def test_dribbling(protection: Protection) -> None:
    """An answer may come byte by byte, wrapped or not."""
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS, protections=(protection,)) as server:
        connection = await _to(server, BY_TOKEN)
        server.order(Dribble(size=1))
        assert (await connection.call(ECHO, Said(text="slowly"))).text == "slowly"
        await connection.close()


async def test_an_exception() -> None:
    """A call that fails leaves the connection as it was; the Java class is ours, the stack trace is gone."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(standby())
        with pytest.raises(StandbyError) as caught:
            await connection.call(ECHO, Said())
        assert caught.value.class_name == "org.apache.hadoop.ipc.StandbyException"
        assert mentions(str(caught.value), f"{server.address} EchoProtocol.echo", "StandbyException", "READ")
        assert (await connection.call(ECHO, Said(text="x"))).text == "x"
        await connection.close()


async def test_a_fatal_exception() -> None:
    """It ends the connection, and every call on it."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(Silence())
        other = asyncio.create_task(connection.call(ECHO, Said()))
        await server.wait_called("echo")
        server.order(Refuse(class_name="java.lang.Error", message="on fire", fatal=True))
        with pytest.raises(RemoteError, match="on fire"):
            await connection.call(ECHO, Said())
        with pytest.raises(RemoteError, match="on fire"):
            await other
        assert not connection.is_open
        await connection.close()


async def test_remote_text_is_harmless() -> None:
    """Control characters do not reach the terminal, and the text is cut."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(Refuse(class_name="java.\x1b[31mX", message="\x1b[2J\a" + "y" * 100_000))
        with pytest.raises(RemoteError) as caught:
            await connection.call(ECHO, Said())
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 3000
        await connection.close()


@pytest.mark.parametrize("executed", [False, True])
async def test_dropped(executed: bool) -> None:
    """The connection breaks during a call, whose result is unknown. The next call was never sent."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(DropResponse(executed=executed))
        with pytest.raises(ConnectionLostError, match=f"{server.address}.*daemon") as caught:
            await connection.call(ECHO, Said())
        assert caught.value.maybe_executed
        with pytest.raises(ConnectionLostError) as caught:
            await connection.call(ECHO, Said())
        assert not caught.value.maybe_executed
        assert not connection.is_open
        await connection.close()


async def test_cut() -> None:
    async with daemon() as server:
        connection = await _to(server)
        server.order(Cut(after=5))
        with pytest.raises(ConnectionLostError, match="in the middle"):
            await connection.call(ECHO, Said())
        await connection.close()


async def test_closing_under_a_call() -> None:
    """The pending call fails, and the error does not blame the daemon."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(Silence())
        waiting = asyncio.create_task(connection.call(ECHO, Said()))
        await server.wait_called("echo")
        await connection.close()
        with pytest.raises(ConnectionLostError, match=f"{server.address}.*client"):
            await waiting


async def test_a_timeout() -> None:
    """The call fails, the connection lives, and the late answer is dropped."""
    async with daemon() as server:
        connection = await _to(server)
        hold = HoldResponse()
        server.order(hold)
        with pytest.raises(CallTimeoutError, match=rf"{server.address} EchoProtocol\.echo.*0\.02 s"):
            await connection.call(ECHO, Said(text="late"), timeout=0.02)
        hold.release()
        assert (await connection.call(ECHO, Said(text="next"))).text == "next"
        assert connection.pending == 0
        await connection.close()


async def test_a_cancelled_call() -> None:
    """Its response is dropped; the connection stays open."""
    async with daemon() as server:
        connection = await _to(server)
        server.order(Silence())
        waiting = asyncio.create_task(connection.call(ECHO, Said()))
        await server.wait_called("echo")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert connection.pending == 0
        assert (await connection.call(ECHO, Said(text="x"))).text == "x"
        await connection.close()


async def test_pings() -> None:
    """A silent daemon is pinged while a call waits, wrapped if need be, and not when none does."""
    for protection in Protection:
        async with daemon(auths=ONLY_TOKEN, tokens=TOKENS, protections=(protection,)) as server:
            connection = await _to(server, BY_TOKEN, ping_interval=0.01)
            hold = HoldResponse()
            server.order(hold)
            waiting = asyncio.create_task(connection.call(ECHO, Said()))
            await hold.is_held.wait()
            await wait_until(lambda: server.pings >= 3)
            hold.release()
            await waiting
            await connection.close()


async def test_a_repeated_call_keeps_its_name() -> None:
    """Servers that keep answers know a repetition by its name."""
    async with daemon() as server:
        name = CallId.from_new()
        for each in (name, name.to_retry(), name.to_retry().to_retry()):
            connection = await _to(server)
            await connection.call(ECHO, Said(), retry=each)
            await connection.close()
        assert [(name.client_id, name.number, count) for count in range(3)] == [
            (call.client_id, call.call_id, call.retry_count) for call in server.calls
        ]


async def test_the_same_name_twice_at_once() -> None:
    """A name is for one call at a time."""
    async with daemon() as server:
        connection = await _to(server)
        hold = HoldResponse()
        server.order(hold)
        name = CallId.from_new()
        waiting = asyncio.create_task(connection.call(ECHO, Said(), retry=name))
        await server.wait_called("echo")
        with pytest.raises(ValueError, match=rf"\b{name.number}\b"):
            await connection.call(ECHO, Said(), retry=name)
        hold.release()
        await waiting
        await connection.close()


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x0a", "TLS"),
        (b"220 mail.example.com ESMTP\r\n", "220 mail.example.com ESMTP"),
        (b"\x7f\xff\xff\xff\0\0\0\0", "2147483647 bytes"),
        (b"\0\0\0\x03\xff\xff\xff", "read"),
        (b"\0\0\0\0", " 0 bytes"),
    ],
)
async def test_no_hadoop_daemon(data: bytes, fact: str) -> None:
    """The error says what it is instead, if one can see it; during the login and after it."""
    async with daemon(auths=(Auth.TOKEN, Auth.SIMPLE), tokens=TOKENS) as server:
        server.order(Garble(data=data))
        connection = await _to(server)
        with pytest.raises(IpcProtocolError, match=f"{server.address}.*{fact}"):
            await connection.call(ECHO, Said())
        await connection.close()
        server.order(Garble(data=data), at=FaultMoment.LOGIN)
        with pytest.raises(IpcProtocolError, match=f"{server.address}.*{fact}"):
            await _to(server, BY_TOKEN)


async def test_plain_answers_in_a_wrapped_connection() -> None:
    """An attacker between client and daemon cannot insert responses."""
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS, protections=(Protection.INTEGRITY,)) as server:
        connection = await _to(server, BY_TOKEN)
        server.order(Garble(data=bytes.fromhex("000000050408001000")))
        with pytest.raises(IpcProtocolError, match="protection"):
            await connection.call(ECHO, Said())
        assert not connection.is_open
        await connection.close()


async def test_a_refused_connection() -> None:
    server = daemon()
    address = await server.start()
    await server.stop()
    with pytest.raises(ConnectError, match=str(address)) as caught:
        await connect(address, ALICE, protocol=PROTOCOL)
    assert caught.value.failure is ConnectFailure.REFUSED


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "ex ample"])
async def test_unknown_hosts(host: str) -> None:
    """Names that DNS does not know, and names that cannot be any."""
    with pytest.raises(ConnectError, match=f"{host}:8032") as caught:
        await connect(Address(host=host, port=8032), ALICE, protocol=PROTOCOL)
    assert caught.value.failure is ConnectFailure.UNKNOWN_HOST


async def test_a_silent_login() -> None:
    async with daemon(auths=ONLY_TOKEN, tokens=TOKENS) as server:
        server.order(Silence(), at=FaultMoment.LOGIN)
        with pytest.raises(ConnectError, match=rf"{server.address}.*0\.05 s") as caught:
            await _to(server, BY_TOKEN, login_timeout=0.05)
        assert caught.value.failure is ConnectFailure.TIMED_OUT


async def test_a_daemon_that_restarts() -> None:
    """It listens on the same port again, and a new connection works."""
    async with daemon() as server:
        connection = await _to(server)
        await connection.call(ECHO, Said())
        await server.stop()
        await server.start()
        with pytest.raises(ConnectionLostError):
            await connection.call(ECHO, Said())
        await connection.close()
        connection = await _to(server)
        assert (await connection.call(ECHO, Said(text="again"))).text == "again"
        await connection.close()


async def test_a_request_too_long() -> None:
    """It is not sent: the daemon would close the connection without a word."""
    async with daemon() as server:
        connection = await _to(server)
        with pytest.raises(IpcProtocolError, match=r"ipc\.maximum\.data\.length"):
            await connection.call(ECHO, Said(data=bytes(128 << 20)))
        assert connection.is_open
        await connection.close()


async def test_an_answer_too_long() -> None:
    async with daemon() as server:
        connection = await connect(server.address, ALICE, protocol=PROTOCOL, options=ConnectionOptions(max_answer=100))
        server.order(Garble(data=(1 << 17).to_bytes(4, "big")))
        with pytest.raises(IpcProtocolError, match=r"131072 bytes.*ipc\.maximum\.response\.length"):
            await connection.call(ECHO, Said())
        await connection.close()
