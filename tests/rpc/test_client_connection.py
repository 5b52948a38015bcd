"""Both transports behave the same: every test here runs on a Unix socket and with TLS."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import signal
import socket
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rpc.recording_server import JOB, OTHER_JOB, QUESTION, Place, connected, hello, raw, serving, with_token_of
from tests.support.waiting import wait_until
from tony import isolated_interpreter
from tony.errors import ConnectionFailedError, ProtocolError
from tony.linux import os_errors
from tony.model.codec import to_plain
from tony.protocol.client_messages import GetReport
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Ack, Heartbeat, ReleaseExecutor, StartProgram
from tony.protocol.framing import MAX_FROM_AM, encode
from tony.protocol.hello import PeerKind, encode_answer
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done, SetLogLevel
from tony.rpc import RpcConnection, connect
from tony.rpc.server import HandshakeLimits


@pytest.mark.parametrize("kind", [PeerKind.EXECUTOR, PeerKind.CLIENT])
async def test_messages_go_both_ways(place: Place, kind: PeerKind) -> None:
    """Each side gets what the other sent, in order, and knows who it talks to."""
    async with serving(place) as (server, diary, address), connected(place, address, kind) as connection:
        diary.answer = lambda peer, message: peer.send(Done())
        for n in range(3):
            connection.send(Ack(n=n))
        assert [await connection.receive() for _ in range(3)] == [Done()] * 3
        assert diary.messages == [Ack(n=0), Ack(n=1), Ack(n=2)]
        assert (diary.connections[0].kind, connection.kind) == (kind, kind)
        assert diary.connections[0].is_open
        assert connection.is_open
        assert server.get_statistics().messages == 3


async def test_a_hello_may_come_byte_by_byte(place: Place) -> None:
    """So may everything after it."""
    async with serving(place) as (_, diary, address), raw(address) as peer:
        for byte in hello() + encode(Ack(n=7)):
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
            await asyncio.sleep(0)
        await diary.until(lambda d: d.messages == [Ack(n=7)])


async def test_a_frame_as_long_as_allowed_arrives(place: Place) -> None:
    """A cluster spec of the largest kind, sent as a frame that was built once for all."""
    message = StartProgram(attempt=1, session=1, try_=1, version=1, shared="x" * (MAX_FROM_AM - 200))
    frame = encode(message)
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        diary.connections[0].send_frame(frame)
        assert await connection.receive() == message
        await diary.connections[0].drain()
        assert diary.connections[0].backlog == 0


async def test_one_frame_is_sent_to_many(place: Place) -> None:
    """Three hundred peers at once: each is accepted, each gets the same frame, and all are forgotten when they
    leave."""
    count = 300
    async with serving(place) as (server, diary, address):
        crowd = await asyncio.gather(*(connect(address, place.job.executors, timeout=60) for _ in range(count)))
        await diary.until(lambda d: len(d.connections) == count)
        assert (server.get_statistics().open, server.get_statistics().unauthenticated) == (count, 0)
        frame = encode(SetLogLevel(level="debug"))
        for connection in diary.connections:
            connection.send_frame(frame)
        assert await asyncio.gather(*(one.receive() for one in crowd)) == [SetLogLevel(level="debug")] * count
        for one in crowd:
            one.abort()
        await asyncio.gather(*(one.wait_closed() for one in crowd))
        await diary.until(lambda d: len(d.ends) == count)
        assert (server.get_statistics().open, server.get_statistics().accepted) == (0, count)


async def test_when_one_side_closes_the_other_hears_of_it(place: Place) -> None:
    """What was sent before the end still arrives; then `receive` answers None."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        peer = diary.connections[0]
        peer.send(ReleaseExecutor(grace=1.0))
        peer.close()
        peer.send(Done())  # too late: swallowed
        assert await connection.receive() == ReleaseExecutor(grace=1.0)
        assert await connection.receive() is None
        assert await connection.receive() is None
        assert (connection.error, connection.closed_by_peer) == (None, True)
        await diary.until(lambda d: d.ends == ["closed by this side"])


async def test_a_handler_may_close_while_messages_wait(place: Place) -> None:
    """The messages behind the one that made it close are not passed on."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        diary.answer = lambda peer, message: peer.close()
        for n in range(5):
            connection.send(Ack(n=n))
        assert await connection.receive() is None
        assert diary.messages == [Ack(n=0)]


async def test_a_program_refuses_with_its_own_reason(place: Place) -> None:
    """`stale` and the like come out as a ProtocolError with that code on the other side."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        diary.answer = lambda peer, message: peer.refuse(Code.STALE, "attempt 2 lives")
        connection.send(QUESTION)
        with pytest.raises(ProtocolError, match=r"^attempt 2 lives$") as caught:
            await connection.receive()
        assert caught.value.code == "stale"
        await diary.until(lambda d: d.ends == ["attempt 2 lives"])


# --- credentials --------------------------------------------------------------------------------------------------


async def test_another_jobs_token_is_refused(place: Place) -> None:
    """Even with this job's certificates; the frame behind it is never looked at; it is counted."""
    async with serving(place) as (server, diary, address):
        with pytest.raises(ProtocolError, match="the token is not this job's") as caught:
            await connect(address, with_token_of(OTHER_JOB, place.job.executors))
        assert caught.value.code == Code.TOKEN
        async with raw(address) as peer:
            peer.writer.write(hello(OTHER_JOB.am.token) + encode(QUESTION))
            assert len(await peer.rest()) == 8
        assert (diary.connections, diary.messages, diary.ends) == ([], [], [])
        assert server.get_statistics().refused == {"token": 2}


async def test_nothing_but_the_hello_is_read_before_the_token_was_right(place: Place) -> None:
    """A megabyte of frame instead of a hello is refused after forty bytes."""
    async with serving(place) as (server, diary, address), raw(address) as peer:
        peer.writer.write(encode(StartProgram(attempt=1, session=1, try_=1, version=1, shared="x" * 2**20)))
        assert (await peer.rest())[6] == 3
        assert diary.connections == []
        assert server.get_statistics().refused == {"bad-message": 1}


async def test_a_peer_of_another_version_is_told_our_version(place: Place) -> None:
    async with serving(place) as (server, _, address), raw(address) as peer:
        peer.writer.write(hello(version=9))
        assert await peer.rest() == encode_answer(Code.VERSION)
        assert server.get_statistics().refused == {"version": 1}


async def test_a_slow_hello_is_dropped(place: Place) -> None:
    """Connections without a right hello are limited in time."""
    async with (
        serving(place, limits=HandshakeLimits(timeout_seconds=0.05)) as (server, diary, address),
        raw(address) as peer,
    ):
        peer.writer.write(hello()[:39])
        assert await peer.rest() == b""
        assert server.get_statistics().refused == {"timeout": 1}
        assert (server.get_statistics().unauthenticated, diary.ends) == (0, [])


async def test_unauthenticated_connections_are_limited(place: Place) -> None:
    """Those beyond the limit wait until an earlier one is authenticated or closed."""
    async with serving(place, limits=HandshakeLimits(max_unauthenticated=2)) as (server, diary, address):
        async with raw(address), raw(address):
            await wait_until(lambda: server.get_statistics().unauthenticated == 2)
            waiting = asyncio.create_task(connect(address, place.job.executors))
            for _ in range(20):
                await asyncio.sleep(0)
            assert (diary.connections, server.get_statistics().accepted) == ([], 2)
        connection = await waiting
        assert server.get_statistics().accepted == 3
        connection.close()
        await connection.wait_closed()


# --- bad frames ---------------------------------------------------------------------------------------------------


def frame(body: bytes, length: int | None = None) -> bytes:
    """A body with a length in front, right or not."""
    return (len(body) if length is None else length).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"", 2**20 + 1), Code.TOO_LONG),
        (frame(b"GET / HTTP/1.1\r\n\r\n", 0x47455420), Code.TOO_LONG),
        (frame(b"\x80\x81"), Code.NOT_JSON),
        (frame(b'{"k":"ack","n":NaN}'), Code.NOT_JSON),
        (frame(b"[" * 100_000), Code.NOT_JSON),
        (frame(b'{"k":"no-such-thing"}'), Code.UNKNOWN_KIND),
        (frame(b'{"k":"ack","n":"one"}'), Code.BAD_MESSAGE),
    ],
)
async def test_a_bad_frame_is_refused_with_its_code(place: Place, data: bytes, code: Code) -> None:
    """The peer is told why, what came before counts, what comes after does not; it is counted and the handler hears."""
    async with serving(place) as (server, diary, address):
        async with raw(address) as peer:
            peer.writer.write(hello() + encode(Ack(n=1)) + data + encode(Ack(n=2)))
            answer = await peer.rest()
        assert f'"k":"refused","code":"{code}"'.encode() in answer[8:]
        await diary.until(lambda d: bool(d.ends))
        assert diary.messages == [Ack(n=1)]
        assert server.get_statistics().refused == {code: 1}


async def test_the_reason_reaches_a_peer_that_still_sends(place: Place) -> None:
    """A refusal is not destroyed by bytes that were on their way: the connection closes in two steps."""
    async with serving(place) as (_, _, address), connected(place, address) as connection:
        connection.send_frame(frame(b"x" * 3 * 2**19))
        with pytest.raises(ProtocolError, match="a frame of 1572864 bytes; at most 1048576 are allowed") as caught:
            await connection.receive()
        assert caught.value.code == Code.TOO_LONG


async def test_a_bad_frame_from_the_application_master_is_an_error(place: Place) -> None:
    """`receive` gives what came before it, then raises."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        diary.connections[0].send(Done())
        diary.connections[0].send_frame(frame(b"[]"))
        assert await connection.receive() == Done()
        with pytest.raises(ProtocolError) as caught:
            await connection.receive()
        assert caught.value.code == Code.NOT_JSON
        await diary.until(lambda d: d.ends == ["a frame that is not a JSON object"])


async def test_a_peers_own_words_do_not_become_counters(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that refuses us in a thousand ways fills neither our memory nor our log."""
    async with serving(place) as (server, _, address):
        for n in range(30):
            async with raw(address) as peer:
                wild = b'{"k":"refused","code":"%d","reason":"\\u001b[2J%b"}' % (n, b"x" * 10_000)
                peer.writer.write(hello() + frame(wild))
                await peer.rest()
        refused = dict(server.get_statistics().refused)
        assert refused.pop("other") == 30
        assert refused.keys() <= {"tls"}  # other processes may connect to a port that was another server's before
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) < 30
    assert all(line.isprintable() and len(line) < 1000 for line in lines)


async def test_a_message_over_the_peers_limit_is_not_sent(place: Place) -> None:
    """The connection continues; the error is the sender's."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        with pytest.raises(ProtocolError, match="at most 1048576 can be sent"):
            connection.send(Heartbeat(last_line="x" * 2**20))
        connection.send(QUESTION)
        await diary.until(lambda d: d.messages == [QUESTION])


# --- ends ---------------------------------------------------------------------------------------------------------


async def test_a_peer_that_breaks_off_is_noticed_at_once(place: Place) -> None:
    """A reset in the middle of a frame ends that connection and no other."""
    async with serving(place) as (_, diary, address), connected(place, address) as other:
        async with raw(address) as peer:
            peer.writer.write(hello() + encode(QUESTION)[:9])
            await diary.until(lambda d: len(d.connections) == 2)
        await diary.until(lambda d: len(d.ends) == 1)
        other.send(QUESTION)
        await diary.until(lambda d: d.messages == [QUESTION])


async def test_a_half_closed_connection_is_closed(place: Place) -> None:
    """Its end of sending is the end: no peer of tony stops sending and continues to read."""
    async with serving(place) as (_, diary, address), raw(address, secure=False) as peer:
        if place.scheme == "unix":
            peer.writer.write(hello())
            await diary.until(lambda d: bool(d.connections))
        peer.writer.write_eof()
        await peer.rest()
        if place.scheme == "unix":
            await diary.until(lambda d: d.ends == ["closed by the other side"])


async def test_a_peer_that_does_not_read_is_dropped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for one reader is bounded; `backlog` says how much it is."""
    # Twice the real limit would be 64 MiB of memory for one test.
    monkeypatch.setattr("tony.rpc.server._ListeningSide.limit_out", 2**20)
    big = encode(SetLogLevel(level="x" * 2**19))
    async with serving(place) as (server, diary, address), raw(address) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.writer.write(hello())
        await diary.until(lambda d: bool(d.connections))
        connection = diary.connections[0]
        most = 0
        while connection.is_open:
            connection.send_frame(big)
            most = max(most, connection.backlog)
        await connection.drain()
        await diary.until(lambda d: bool(d.ends))
        assert "does not read" in diary.ends[0]
        assert 2**20 < most <= 2**21
        assert server.get_statistics().refused == {"slow-reader": 1}


async def test_a_slow_reader_slows_the_sender(place: Place) -> None:
    """Messages wait in the sender, not in the reader's memory, and all arrive in the end."""
    count, big = 200, SetLogLevel(level="x" * 2**16)
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        peer = diary.connections[0]
        for _ in range(count):
            peer.send(big)
        assert await connection.receive() == big
        waiter = asyncio.create_task(peer.drain())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiter.done()
        assert peer.backlog > 0
        assert [await connection.receive() for _ in range(count - 1)] == [big] * (count - 1)
        await waiter
        assert peer.backlog < 2**16


async def test_closing_the_server_ends_everything(place: Place) -> None:
    """Connections are closed, nothing listens any longer, and a new connection fails with `no_listener`."""
    async with serving(place) as (server, diary, address):
        async with connected(place, address) as connection, raw(address, secure=False):
            await wait_until(lambda: server.get_statistics().open == 1 and server.get_statistics().unauthenticated == 1)
            diary.connections[0].send(Done())
            await server.close()
            assert await connection.receive() == Done()
            assert await connection.receive() is None
        assert (server.get_statistics().open, server.get_statistics().unauthenticated) == (0, 0)
        with pytest.raises(ConnectionFailedError, match="cannot connect to") as caught:
            await connect(address, place.job.executors)
        assert caught.value.no_listener


@pytest.mark.loop_complains("a bug of the handler's")
async def test_a_bug_in_the_handler_costs_one_connection(place: Place) -> None:
    """It goes to the loop's exception handler; the handler still hears of that connection's end, the others live."""

    def stumble(peer: RpcConnection, message: Message) -> None:
        if isinstance(message, Ack):
            raise RuntimeError("a bug of the handler's")

    async with serving(place) as (_, diary, address), connected(place, address) as other:
        diary.answer = stumble
        async with connected(place, address) as connection:
            connection.send(Ack(n=1))
            assert await connection.receive() is None
        await diary.until(lambda d: len(d.ends) == 1)
        other.send(GetReport())
        await diary.until(lambda d: QUESTION in d.messages)


# --- connecting ---------------------------------------------------------------------------------------------------


async def test_a_silent_application_master_times_out(place: Place, folder: Path) -> None:
    """The timeout covers connection, TLS and hello; it does not mean that there is no listener."""

    left = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    if place.scheme == "unix":
        other_server = await asyncio.start_unix_server(silence, f"{folder}/silent.sock")
        address = f"unix:{folder}/silent.sock"
    else:
        other_server = await asyncio.start_server(silence, "127.0.0.1", 0)
        address = f"tls:127.0.0.1:{other_server.sockets[0].getsockname()[1]}"
    async with other_server:
        with pytest.raises(ConnectionFailedError, match=r"no answer from .* within 0\.1 s") as caught:
            await connect(address, place.job.executors, timeout=0.1)
        await left.wait()
    assert not caught.value.no_listener


async def test_another_server_is_not_taken_for_the_application_master(place: Place, folder: Path) -> None:
    """Another server answers, or closes: an error in any case."""

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        writer.close()

    if place.scheme == "unix":
        other_server = await asyncio.start_unix_server(chatter, f"{folder}/mail.sock")
        address = f"unix:{folder}/mail.sock"
    else:
        other_server = await asyncio.start_server(chatter, "127.0.0.1", 0)
        address = f"tls:127.0.0.1:{other_server.sockets[0].getsockname()[1]}"
    async with other_server:
        with pytest.raises(
            (ConnectionFailedError, ProtocolError),
            match=r"not this job's application master|is not an application master",
        ):
            await connect(address, place.job.executors)


async def test_a_wait_that_is_cancelled_loses_no_message(place: Place) -> None:
    """`receive` may be wrapped in a time-out."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.receive(), 0.01)
        diary.connections[0].send(Done())
        assert await connection.receive() == Done()


async def test_credentials_that_are_none_are_found_at_once(place: Place) -> None:
    """A token that is no token never reaches the wire."""
    async with serving(place) as (_, _, address):
        with pytest.raises(ValueError, match="a token is 64 hex digits"):
            await connect(address, replace(JOB.executors, token="secret"))


_PEER = """
import asyncio, json, sys
from tony.model.codec import from_plain
from tony.protocol.launch import AmCredentials
from tony.protocol.client_messages import GetReport
from tony.rpc import connect

async def main():
    connection = await connect(sys.argv[1], from_plain(AmCredentials, json.load(sys.stdin)))
    connection.send(GetReport())
    await connection.receive()

asyncio.run(main())
"""


async def test_a_killed_process_is_noticed_at_once(place: Place) -> None:
    """Another process, started as ours are (standard library alone), connects and is killed with -9."""
    command = isolated_interpreter.command("tony.rpc")
    root = command[-1]
    code = f"import sys; sys.path.insert(0, {root!r})\n{_PEER}"
    async with serving(place) as (_, diary, address):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", code, address, stdin=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(to_plain(place.job.executors)).encode())
            process.stdin.close()
            await diary.until(lambda d: d.messages == [QUESTION])
            process.send_signal(signal.SIGKILL)
            await diary.until(lambda d: bool(d.ends))
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if place.scheme == "unix":
            assert diary.ends == ["closed by the other side"]


@pytest.mark.loop_complains("a log-level of 33554471 bytes; at most 33554432 can be sent")
async def test_a_message_too_long_of_the_handlers_is_not_the_peers_fault(place: Place) -> None:
    """It is a bug like any other, with TLS too, and not counted against the peer."""
    async with serving(place) as (server, diary, address), connected(place, address) as connection:
        diary.answer = lambda peer, message: peer.send(SetLogLevel(level="x" * MAX_FROM_AM))
        connection.send(QUESTION)
        assert await connection.receive() is None
        assert server.get_statistics().refused == {}


async def test_closing_a_connection_to_a_peer_that_is_gone_is_harmless(place: Place) -> None:
    """Before its reset is noticed, `send` and `close` raise nothing."""
    async with serving(place) as (_, diary, address):
        for _ in range(20):
            async with raw(address) as peer:
                peer.writer.write(hello())
                await diary.until(lambda d: bool(d.connections))
            connection = diary.connections[0]
            for _ in range(10):
                connection.send(Done())
            connection.close()
            await connection.wait_closed()


async def test_much_that_waits_still_arrives_before_the_end(place: Place) -> None:
    """`close` keeps the order: everything sent before it, then the end."""
    count, big = 40, SetLogLevel(level="x" * 2**16)
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        for _ in range(count):
            diary.connections[0].send(big)
        diary.connections[0].close()
        got: list[Message] = []
        while (message := await connection.receive()) is not None:
            got.append(message)
        assert got == [big] * count
        assert connection.closed_by_peer


async def test_a_process_without_room_for_a_connection_takes_it_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No file descriptors left: it is logged, and tried again; a connection that broke before is passed over."""
    real, errors = socket.socket.accept, [OSError(errno.EMFILE, "too many"), OSError(errno.ECONNABORTED, "gone")]

    def accept(listener: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop(0)
        return real(listener)

    # Patched: really running out of descriptors would break the test itself.
    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr("tony.rpc.server._ACCEPT_PAUSE_SECONDS", 0.001)
    async with serving(place) as (_, _, address), connected(place, address) as connection:
        assert connection.is_open
    said = f"cannot take another connection: too many: {os_errors.describe_open_file_limit()}"
    assert [record.getMessage() for record in caplog.records] == [said]


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_accepted_during_the_servers_close_is_closed(place: Place, turns: int) -> None:
    """At whatever stage it is, its socket is not leaked."""
    with warnings.catch_warnings(record=True) as forgotten:
        warnings.simplefilter("always", ResourceWarning)
        async with serving(place) as (server, _, address):
            knocking = asyncio.ensure_future(connect(address, place.job.executors, timeout=10))
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            with contextlib.suppress(ConnectionFailedError, ProtocolError):
                (await knocking).abort()
        gc.collect()
    assert [str(each.message) for each in forgotten] == []
