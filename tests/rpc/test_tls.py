"""TLS lets in this job's certificates and nothing else, each in its own part."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rpc.recording_server import JOB, OTHER_JOB, QUESTION, Place, connected, hello, raw, serving, with_token_of
from tests.support.waiting import wait_until
from tony.errors import ConnectionFailedError
from tony.protocol.framing import encode
from tony.protocol.shared_messages import SetLogLevel
from tony.rpc import connect
from tony.rpc.tls_pipe import PIECE, TlsPipe, create_client_context, create_server_context

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def place() -> Place:
    return Place(address="tls:127.0.0.1:0", job=JOB, scheme="tls")


async def test_a_client_of_another_job_finds_that_this_is_not_its_application_master(place: Place) -> None:
    """It says nothing, not even its token, to a certificate that its authority did not sign."""
    async with serving(place) as (server, diary, address):
        with pytest.raises(
            ConnectionFailedError, match="the other side's certificate is not one of this job"
        ) as caught:
            await connect(address, OTHER_JOB.executors)
        assert not caught.value.no_listener
        await wait_until(lambda: server.get_statistics().refused == {"tls": 1})
        assert server.get_statistics().messages == 0
        assert diary.ends == []


async def test_a_certificate_of_another_job_is_refused(place: Place) -> None:
    """Even if it trusts us, and has the right token."""
    mixed = replace(with_token_of(JOB, OTHER_JOB.executors), ca=JOB.executors.ca)
    async with serving(place) as (server, diary, address):
        with pytest.raises(ConnectionFailedError, match=r"not this job's application master .* unknown ca"):
            await connect(address, mixed)
        assert (server.get_statistics().refused, diary.ends) == ({"tls": 1}, [])


async def test_no_certificate_is_refused(place: Place) -> None:
    """A token alone does not open a TLS connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=JOB.executors.ca)
    async with serving(place) as (server, diary, address), _streams(address, context) as (reader, writer):
        writer.write(hello())
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            await reader.read()
        assert (server.get_statistics().refused, diary.ends) == ({"tls": 1}, [])


async def test_only_tls_1_3_is_spoken(place: Place) -> None:
    """Both ends are tony's: there is no older peer to support."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=JOB.executors.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(place) as (server, _, address):
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            async with _streams(address, context):
                pass
        assert server.get_statistics().refused == {"tls": 1}


async def test_the_application_masters_pair_does_not_connect(place: Place) -> None:
    """Each certificate has its part; this one's is to listen."""
    async with serving(place) as (server, diary, address):
        with pytest.raises(Exception, match="refused the connection"):
            await connect(address, JOB.am)
        assert (server.get_statistics().refused, diary.ends) == ({"tls": 1}, [])


async def test_an_executors_pair_does_not_pass_for_the_application_master(place: Place) -> None:
    """An executor that listened at its address could not take the job over."""
    false = Place(address=place.address, job=replace(JOB, am=JOB.executors), scheme="tls")
    async with serving(false) as (server, _, address):
        with pytest.raises(ConnectionFailedError, match=r"not this job's application master .* Hostname mismatch"):
            await connect(address, JOB.executors)
        await wait_until(lambda: server.get_statistics().refused == {"tls": 1})


@pytest.mark.parametrize(
    "data",
    [hello(), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\0" * 9],
    ids=["hello", "http", "long-record", "zeros"],
)
async def test_a_peer_without_tls_is_refused(place: Place, data: bytes) -> None:
    """The right hello in the clear is as good as noise."""
    async with serving(place) as (server, diary, address), raw(address, secure=False) as peer:
        peer.writer.write(data)
        await peer.rest()
        assert (server.get_statistics().refused, diary.ends) == ({"tls": 1}, [])


async def test_damaged_records_end_the_connection(place: Place) -> None:
    """A byte changed on the way is noticed; the message is not taken."""
    pipe = TlsPipe(create_client_context(JOB.executors), listens=False)
    async with serving(place) as (server, diary, address):
        async with raw(address, secure=False) as peer:
            peer.writer.write(pipe.start())
            while not pipe.secured:
                assert not any(pipe.feed(memoryview(await peer.reader.read(2**16))))
            peer.writer.write(pipe.take_outgoing() + b"".join(pipe.write(hello())))
            await diary.until(lambda d: bool(d.connections))
            record = bytearray(b"".join(pipe.write(encode(QUESTION))))
            record[-1] ^= 1
            peer.writer.write(record)
            await peer.rest()
        await diary.until(lambda d: bool(d.ends))
        assert (diary.messages, server.get_statistics().refused) == ([], {"tls": 1})
        assert diary.ends == ["the TLS handshake failed: decryption failed or bad record mac"]


def _pair() -> tuple[TlsPipe, TlsPipe]:
    near = TlsPipe(create_client_context(JOB.executors), listens=False)
    far = TlsPipe(create_server_context(JOB.am), listens=True)
    to_far, to_near = near.start(), b""
    while to_far or to_near:
        assert not any(far.feed(memoryview(to_far)))
        to_near = far.take_outgoing()
        assert not any(near.feed(memoryview(to_near)))
        to_far = near.take_outgoing()
    assert near.secured
    assert far.secured
    return near, far


def test_the_engine_works_without_a_socket() -> None:
    """What one end writes the other reads, in pieces of any size; the end is told as an empty piece."""
    near, far = _pair()
    text = bytes(range(256)) * 1000
    cipher = b"".join(near.write(text)) + near.close()
    plain = [
        piece for start in range(0, len(cipher), 777) for piece in far.feed(memoryview(cipher[start : start + 777]))
    ]
    assert (b"".join(plain), plain[-1]) == (text, b"")
    assert far.is_peer("tony-executor")
    assert not far.is_peer("tony-am")


def test_a_large_message_passes_in_small_pieces() -> None:
    """OpenSSL's memory buffers never shrink, so they are never given more than a piece at a time."""
    near, far = _pair()
    for piece in near.write(b"x" * 2**20):
        assert len(piece) <= PIECE + 100
        assert b"".join(far.feed(memoryview(piece))) == b"x" * PIECE


async def test_a_connection_takes_little_memory(place: Place) -> None:
    """10,000 must fit into one application master: both ends together stay below asyncio's own 288 KB for one."""
    count = 100
    async with serving(place) as (_, diary, address), connected(place, address):
        await diary.until(lambda d: len(d.connections) == 1)
        before = _resident()
        crowd = [await connect(address, JOB.executors) for _ in range(count)]
        await diary.until(lambda d: len(d.connections) == count + 1)
        for connection in diary.connections:
            connection.send_frame(encode(SetLogLevel(level="x" * 2**16)))
        for one in crowd:
            assert await one.receive() == SetLogLevel(level="x" * 2**16)
        # 64 KB of it is the connecting end's own buffer, of which a process has one.
        assert (_resident() - before) / count < 250_000
        for one in crowd:
            one.close()
        await asyncio.gather(*(one.wait_closed() for one in crowd))


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def test_a_unix_socket_needs_no_tls() -> None:
    """The module that loads OpenSSL for us is not imported until an address asks for it."""
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import tony.rpc;"
        "print('tony.rpc.tls_pipe' in sys.modules, 'hmac' in sys.modules, 'cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\n"


@asynccontextmanager
async def _streams(
    address: str, context: ssl.SSLContext
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """asyncio's own TLS, to look at ours from outside."""
    port = int(address.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="tony-am")
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        try:
            await writer.wait_closed()
        except OSError:
            pass
