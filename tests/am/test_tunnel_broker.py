"""The application master relays tunnels: joined, throttled, refused with a reason, ended with either side."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.am.fake_connection import FakeConnection
from tests.am.in_process_job import InProcessJob, play, succeed
from tests.core.specs import OK, workers
from tests.support.fake_executor import FakeExecutor
from tests.support.waiting import wait_until
from tony.am.open_file_limit import raise_tunnel_limit
from tony.am.tunnel_broker import TunnelBroker
from tony.errors import ProtocolError
from tony.model.ids import TaskId
from tony.protocol.client_messages import GetReport, Report
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Heartbeat
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials
from tony.protocol.message_base import Message
from tony.protocol.tunnel_messages import (
    DialTunnel,
    EndTunnel,
    JoinTunnel,
    OpenTunnel,
    TunnelFailed,
    TunnelOpened,
    TunnelTaken,
)
from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection

TASKS = [TaskId("worker", index) for index in range(2)]
OPEN = OpenTunnel(task=TaskId("worker", 0), port=8888)


class Scene:
    """Tunnels with one client, and executors that keep what they are told."""

    def __init__(self, most: int = 10, patience: float = 100.0) -> None:
        self.told: list[DialTunnel] = []
        self.there = True
        self.tunnels = TunnelBroker(self._send, TASKS, lambda tasks: most, patience)
        self.client, self.far = FakeConnection(), FakeConnection()

    def _send(self, task: TaskId, message: Message) -> bool:
        if self.there:
            self.told.append(cast(DialTunnel, message))
        return self.there

    def joined(self) -> Scene:
        self.tunnels.open(self.client.me, OPEN)
        self.tunnels.join(self.far.me, JoinTunnel(tunnel=self.told[-1].tunnel, address="127.0.0.1:8888"))
        self.client.taken()
        return self


def test_a_tunnel_is_two_connections() -> None:
    """The executor dials; what comes on the client's goes out on the one that it joins with, as it is."""
    scene = Scene()
    scene.tunnels.open(scene.client.me, OPEN)
    assert [message.port for message in scene.told] == [8888]
    assert not scene.tunnels.carry(scene.far.me, EndTunnel())
    scene.tunnels.join(scene.far.me, JoinTunnel(tunnel=scene.told[0].tunnel, address="127.0.0.1:8888"))
    assert scene.client.taken() == [TunnelOpened(address="127.0.0.1:8888")]
    piece = Raw.from_bytes(b"hello")
    assert scene.tunnels.carry(scene.client.me, piece)
    assert scene.tunnels.carry(scene.client.me, EndTunnel())
    assert scene.tunnels.carry(scene.far.me, TunnelTaken())
    far = scene.far.taken()
    assert far[0] is piece.frame
    assert (far[1:], scene.client.taken()) == ([EndTunnel()], [TunnelTaken()])
    scene.tunnels.on_closed(scene.client.me)
    assert (scene.far.over, len(scene.tunnels)) == (True, 0)
    scene.tunnels.on_closed(scene.far.me)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"task": TaskId("worker", 7)}, "the job has no task worker:7"),
        ({"port": 65536}, "there is no port 65536"),
        ({"port": -1}, "there is no port -1"),
    ],
)
def test_nonsense_is_refused_in_words(wrong: dict[str, Any], reason: str) -> None:
    """The client may ask again; no executor hears of it."""
    scene = Scene()
    scene.tunnels.open(scene.client.me, OpenTunnel(**{"task": TaskId("worker", 0), **wrong}))
    [failed] = scene.client.taken()
    assert cast(TunnelFailed, failed).reason.startswith(reason)
    assert (scene.told, len(scene.tunnels)) == ([], 0)


def test_without_an_executor_there_is_no_tunnel() -> None:
    """The request is refused at once, although an executor may still attach."""
    scene = Scene()
    scene.there = False
    scene.tunnels.open(scene.client.me, OPEN)
    assert scene.client.taken() == [TunnelFailed(reason="the executor of worker:0 is not connected")]
    assert len(scene.tunnels) == 0


def test_only_the_tasks_own_executor_may_say_that_it_failed() -> None:
    """And only of a tunnel that is not open yet."""
    scene = Scene()
    scene.tunnels.open(scene.client.me, OPEN)
    word = scene.told[0].tunnel
    scene.tunnels.on_failed(TASKS[1], TunnelFailed(tunnel=word, reason="no"))
    scene.tunnels.on_failed(TASKS[0], TunnelFailed(tunnel="x", reason="no"))
    assert scene.client.taken() == []
    scene.tunnels.on_failed(TASKS[0], TunnelFailed(tunnel=word, reason="n" * 5000))
    assert scene.client.taken() == [TunnelFailed(reason="n" * 1000)]
    scene.tunnels.join(scene.far.me, JoinTunnel(tunnel=word, address=""))
    assert scene.far.refused == [Code.STALE]


def test_there_may_be_so_many_and_no_more() -> None:
    """What has ended does not count any longer."""
    scene = Scene(most=2)
    clients = [FakeConnection() for _ in range(3)]
    for client in clients:
        scene.tunnels.open(client.me, OPEN)
    [failed] = clients[2].taken()
    assert failed == TunnelFailed(reason="2 tunnels of this job are open already; the maximum is 2")
    scene.tunnels.on_closed(clients[0].me)
    scene.tunnels.open(clients[2].me, OPEN)
    assert (clients[2].taken(), len(scene.tunnels)) == ([], 2)


def test_a_tunnel_carries_nothing_else() -> None:
    """Neither before it is open nor after."""
    scene = Scene()
    scene.tunnels.open(scene.client.me, OPEN)
    assert scene.tunnels.carry(scene.client.me, Raw.from_bytes(b"early"))
    assert scene.client.refused == [Code.BAD_MESSAGE]
    scene = Scene().joined()
    assert scene.tunnels.carry(scene.client.me, GetReport())
    assert scene.tunnels.carry(scene.far.me, Heartbeat())
    assert (scene.client.refused, scene.far.refused) == ([Code.BAD_MESSAGE], [Code.BAD_MESSAGE])


def test_a_fast_sender_is_not_read_until_its_peer_catches_up() -> None:
    """Until that one has taken nearly all of it."""
    scene = Scene().joined()
    scene.far.is_full = True
    for _ in range(3):
        scene.tunnels.carry(scene.client.me, Raw.from_bytes(b"x"))
    assert (scene.client.paused, scene.far.paused, len(scene.far.drained)) == (True, False, 1)
    scene.tunnels.carry(scene.far.me, Raw.from_bytes(b"y"))
    assert len(scene.client.taken()) == 1
    scene.far.drained[0]()
    assert not scene.client.paused


def test_a_paused_connection_is_still_watched() -> None:
    """One that hangs up meanwhile ends at the second check; one that does not may wait for ever."""
    scene = Scene().joined()
    scene.far.is_full = True
    scene.tunnels.carry(scene.client.me, Raw.from_bytes(b"x"))
    for _ in range(3):
        scene.tunnels.check()
    assert not scene.client.over
    scene.client.hung_up = True
    scene.tunnels.check()
    assert not scene.client.over
    scene.tunnels.check()
    assert scene.client.over


def test_a_tunnel_without_an_answer_times_out() -> None:
    """An executor that hangs, and one that is gone."""
    scene = Scene(patience=-1.0)
    scene.tunnels.open(scene.client.me, OPEN)
    scene.tunnels.check()
    assert scene.client.taken() == [TunnelFailed(reason="the executor of worker:0 does not answer")]
    scene.tunnels.open(scene.client.me, OPEN)
    scene.tunnels.on_executor_lost(TASKS[1])
    scene.tunnels.on_executor_lost(TASKS[0])
    assert scene.client.taken() == [TunnelFailed(reason="the executor of worker:0 has exited")]
    scene = Scene().joined()
    scene.tunnels.on_executor_lost(TASKS[0])
    assert scene.far.over


def test_tunnels_leave_room_for_executors() -> None:
    """As many as open files allow besides, and never more than so many."""
    assert raise_tunnel_limit(10) == 256
    assert raise_tunnel_limit(10**9) == 0


# --- with a real application master -----------------------------------------------------------------------------------


class Ends:
    """A real master, a client's connection and, once it has joined, an executor's: both ends of a tunnel."""

    def __init__(self, job: InProcessJob, executor: FakeExecutor) -> None:
        self.job = job
        self.executor = executor

    async def client(self, credentials: AmCredentials | None = None) -> RpcConnection:
        return await connect(self.job.address, credentials or self.job.credentials.executors, PeerKind.CLIENT)

    async def dialled(self) -> DialTunnel:
        await wait_until(lambda: any(isinstance(it, DialTunnel) for it in self.executor.received))
        found = next(it for it in self.executor.received if isinstance(it, DialTunnel))
        self.executor.received.remove(found)
        return found

    async def joined(self) -> tuple[RpcConnection, RpcConnection]:
        client = await self.client()
        client.send(OPEN)
        word = (await self.dialled()).tunnel
        far = await connect(self.job.address, self.job.credentials.executors)
        far.send(JoinTunnel(tunnel=word, address="127.0.0.1:8888"))
        assert await client.receive() == TunnelOpened(address="127.0.0.1:8888")
        return client, far


def with_ends(tmp_path: Path, story: Callable[[Ends], Awaitable[None]], *, tls: bool = False) -> None:
    """Runs a job of one task, and a story beside it."""

    async def tell(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        executor = next(iter(job.executors.values()))
        await story(Ends(job, executor))
        executor.exit(OK)

    _, finish = play(tmp_path, workers(1), succeed, meanwhile=tell, tls=tls)
    assert finish.exit_code == 0


@asynccontextmanager
async def closing(*connections: RpcConnection) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for each in connections:
            each.abort()


async def _received(connection: RpcConnection, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = await connection.receive()
        assert isinstance(piece, Raw), piece
        got += piece.data
    return got


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
def test_bytes_go_both_ways(tmp_path: Path, tls: bool) -> None:
    """Any number of any bytes, in order, both ways at once; the end of one way does not end the other."""

    async def story(ends: Ends) -> None:
        client, far = await ends.joined()
        async with closing(client, far):
            data = os.urandom(MAX_RAW * 20)
            pieces = [data[start : start + MAX_RAW] for start in range(0, len(data), MAX_RAW)]

            async def send(end: RpcConnection) -> None:
                for piece in pieces:
                    end.send(Raw.from_bytes(piece))
                    await end.drain()
                end.send(EndTunnel())

            sending = asyncio.gather(send(client), send(far))
            got = await asyncio.gather(_received(far, len(data)), _received(client, len(data)))
            assert got[0] == got[1] == data
            await sending
            assert (await far.receive(), await client.receive()) == (EndTunnel(), EndTunnel())
            far.send(TunnelTaken())
            assert await client.receive() == TunnelTaken()
            client.abort()
            assert await far.receive() is None

    with_ends(tmp_path, story, tls=tls)


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
def test_a_peer_that_does_not_read_costs_little(tmp_path: Path, tls: bool) -> None:
    """The AM takes some pieces from the sender and no more; it answers others as before, and forgets closed
    connections."""

    async def story(ends: Ends) -> None:
        client, far = await ends.joined()
        asker = await ends.client()
        async with closing(client, far, asker):
            far.pause_reading()
            sent = 0
            while not client.is_full:
                client.send(Raw.from_bytes(bytes(MAX_RAW)))
                sent += MAX_RAW
                assert sent < 30 << 20
                await asyncio.sleep(0.001)
            held = [end for end in ends.job.server._side._open if end.backlog]
            assert sum(end.backlog for end in held) < 8 * MAX_RAW
            asker.send(GetReport())
            assert isinstance(await asker.receive(), Report)
            client.abort(reset=True)
            await wait_until(lambda: not len(ends.job.master.executors.tunnels))

    with_ends(tmp_path, story, tls=tls)


def test_a_wrong_token_gets_no_tunnel(tmp_path: Path) -> None:
    """Nor does a word that was not given, nor one that was used before."""

    async def story(ends: Ends) -> None:
        with pytest.raises(ProtocolError, match="the token is not this job's"):
            await ends.client(AmCredentials(token="ab" * 32))
        client, far = await ends.joined()
        for word in ("0" * 32, "", ends.executor.incarnation):
            thief = await connect(ends.job.address, ends.job.credentials.executors)
            thief.send(JoinTunnel(tunnel=word, address="x"))
            with pytest.raises(ProtocolError, match="this tunnel is not expected"):
                await thief.receive()
        async with closing(client, far):
            client.send(Raw.from_bytes(b"still"))
            assert await far.receive() == Raw.from_bytes(b"still")

    with_ends(tmp_path, story)


def test_the_end_of_an_executor_ends_its_tunnels(tmp_path: Path) -> None:
    """Those that are open, and those that are to be."""

    async def story(ends: Ends) -> None:
        client, far = await ends.joined()
        waiting = await ends.client()
        waiting.send(OPEN)
        await ends.dialled()
        async with closing(client, far, waiting):
            ends.executor.exit(OK)  # the job ends, and with it its executors and its master
            assert await client.receive() is None
            assert await waiting.receive() in (TunnelFailed(reason="the executor of worker:0 has exited"), None)

    with_ends(tmp_path, story)


def test_messages_that_no_peer_may_send_are_refused(tmp_path: Path) -> None:
    async def story(ends: Ends) -> None:
        client = await ends.client()
        client.send(Raw.from_bytes(b"x"))
        with pytest.raises(ProtocolError, match="a client may not send raw"):
            await client.receive()

    with_ends(tmp_path, story)
