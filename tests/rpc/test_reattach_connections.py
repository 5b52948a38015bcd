"""The other way round: an application master connects to an executor. Who may, and who is believed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.rpc.recording_server import JOB, OTHER_JOB, Diary, Place, hello, raw, serving, with_token_of
from tests.support.waiting import wait_until
from tony.errors import ConnectionFailedError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Summon
from tony.protocol.framing import MAX_SUMMON, encode
from tony.protocol.hello import PEER_NAME, PeerKind
from tony.protocol.launch import AmCredentials
from tony.protocol.shared_messages import Done, SetLogLevel
from tony.rpc import RpcServer, connect

CALL = Summon(attempt=2, address="tls:there:1")


@asynccontextmanager
async def listening(credentials: AmCredentials = JOB.executors) -> AsyncIterator[tuple[RpcServer, Diary, str]]:
    diary = Diary(answer=lambda peer, message: peer.send(Done()))
    server = RpcServer(credentials, diary, guests=frozenset({PeerKind.MASTER}))
    address = await server.listen("tls:127.0.0.1:0")
    try:
        yield server, diary, address
    finally:
        await server.close()


async def test_an_application_master_is_accepted() -> None:
    """It proves its own name, and requires an executor's."""
    async with listening() as (_, diary, address):
        connection = await connect(address, JOB.am, PeerKind.MASTER)
        connection.send(CALL)
        assert await connection.receive() == Done()
        assert diary.messages == [CALL]
        assert diary.connections[0].kind is PeerKind.MASTER
        connection.close()


@pytest.mark.parametrize(
    ("credentials", "kind"),
    [
        (JOB.executors, PeerKind.EXECUTOR),
        (JOB.executors, PeerKind.CLIENT),
        (JOB.executors, PeerKind.MASTER),
        (JOB.am, PeerKind.CLIENT),
        (with_token_of(OTHER_JOB, JOB.am), PeerKind.MASTER),
        (OTHER_JOB.am, PeerKind.MASTER),
        (with_token_of(JOB, OTHER_JOB.am), PeerKind.MASTER),
    ],
)
async def test_only_application_masters_of_the_job_are_accepted(credentials: AmCredentials, kind: PeerKind) -> None:
    """Executors and clients, who hold the token, are refused, and so is an application master of another job."""
    async with listening() as (server, diary, address):
        with pytest.raises((ConnectionFailedError, ProtocolError)):
            await connect(address, credentials, kind)
        is_ours = credentials.ca == JOB.am.ca
        async with raw(address, credentials, secure=is_ours, name=PEER_NAME) as peer:
            peer.writer.write(hello(credentials.token, kind) + encode(CALL))
            await peer.rest()
        await wait_until(lambda: not server.get_statistics().unauthenticated)
        assert (diary.connections, diary.messages, server.get_statistics().open) == ([], [], 0)


async def test_a_caller_sends_nothing_to_another_server() -> None:
    """Another process may listen at an executor's address by now. It does not get to see the token."""
    for credentials in (OTHER_JOB.executors, JOB.am):
        async with listening(credentials) as (server, _, address):
            with pytest.raises(ConnectionFailedError, match="certificate is not one of this job"):
                await connect(address, JOB.am, PeerKind.MASTER)
            await wait_until(lambda: not server.get_statistics().unauthenticated)
            assert server.get_statistics().refused == {Code.TLS: 1}


async def test_application_masters_do_not_call_each_other(place: Place) -> None:
    """An application master is no client of another: also on a Unix socket, where no name is proved."""
    async with serving(place) as (server, diary, address):
        async with raw(address, JOB.executors) as peer:
            peer.writer.write(hello(kind=PeerKind.MASTER) + encode(CALL))
            await peer.rest()
        assert server.get_statistics().refused == {Code.BAD_MESSAGE: 1}
        assert diary.messages == []


async def test_there_is_little_to_say() -> None:
    """Neither side takes a long frame of the other."""
    async with listening() as (server, _, address):
        connection = await connect(address, JOB.am, PeerKind.MASTER)
        with pytest.raises(ProtocolError, match="at most 4096 can be sent"):
            connection.send(SetLogLevel(level="x" * MAX_SUMMON))
        connection.send_frame(encode(SetLogLevel(level="x" * MAX_SUMMON)))
        with pytest.raises(ProtocolError, match="at most 4096 are allowed"):
            await connection.receive()
        connection.close()
        await wait_until(lambda: server.get_statistics().open == 0)
