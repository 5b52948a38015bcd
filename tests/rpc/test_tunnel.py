"""One end of a tunnel: what a program says to its socket goes over the wire, and back; and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.rpc.recording_server import Place, connected, serving
from tests.support.waiting import wait_until
from tony.protocol.executor_messages import Ack
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.message_base import Message
from tony.protocol.tunnel_messages import EndTunnel, TunnelTaken
from tony.rpc.connection import RpcConnection
from tony.rpc.tunnel import Tunnel

BIG = bytes(range(256)) * 1200


@dataclass(slots=True)
class Scene:
    """A program's own end of its socket, and the far end of the wire."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    far: RpcConnection
    came: list[Message]
    carrying: asyncio.Task[bool]


@asynccontextmanager
async def tunnel(place: Place) -> AsyncIterator[Scene]:
    """A program, our end that carries, and the far end, which a test plays."""
    ours: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.get_running_loop().create_future()
    listener = await asyncio.start_server(lambda *streams: ours.set_result(streams), "127.0.0.1", 0)
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname()[:2])
        await diary.until(lambda d: bool(d.connections))
        carrying = asyncio.get_running_loop().create_task(Tunnel(connection).carry(*(await ours)))
        try:
            yield Scene(reader, writer, diary.connections[0], diary.messages, carrying)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
            writer.transport.abort()
            listener.close()


async def test_both_ways_to_their_ends(place: Place) -> None:
    """Everything arrives, in order; each way ends by itself, and is known to have arrived."""
    async with tunnel(place) as scene:
        scene.writer.write(BIG)
        scene.writer.write_eof()
        await wait_until(lambda: EndTunnel() in scene.came)
        assert b"".join(it.data for it in scene.came if isinstance(it, Raw)) == BIG
        scene.far.send(TunnelTaken())
        for start in range(0, len(BIG), MAX_RAW):
            scene.far.send(Raw.from_bytes(BIG[start : start + MAX_RAW]))
        assert await scene.reader.readexactly(len(BIG)) == BIG
        assert TunnelTaken() not in scene.came
        scene.far.send(EndTunnel())
        assert await scene.reader.read() == b""
        assert await scene.carrying
        assert scene.came[-1] == TunnelTaken()


async def test_a_tunnel_that_breaks_looks_broken(place: Place) -> None:
    """The program gets a reset, not an end: half of an answer is not taken for all of it."""
    async with tunnel(place) as scene:
        scene.far.send(Raw.from_bytes(b"half of"))
        assert await scene.reader.readexactly(7) == b"half of"
        scene.far.abort()
        with pytest.raises(ConnectionResetError):
            await scene.reader.read()
        assert not await scene.carrying


async def test_a_closed_program_ends_the_tunnel(place: Place) -> None:
    """The far end is told at once."""
    async with tunnel(place) as scene:
        scene.writer.transport.abort()
        await wait_until(lambda: EndTunnel() in scene.came)
        while not scene.carrying.done():  # the kernel takes the first piece, and learns from it that the reader is gone
            scene.far.send(Raw.from_bytes(b"more"))
            await asyncio.sleep(0.001)
        assert not await scene.carrying
        await wait_until(lambda: not scene.far.is_open)


async def test_a_program_that_does_not_read_stops_the_sender(place: Place) -> None:
    """The queue is bounded; later it is delivered, and nothing is missing."""
    async with tunnel(place) as scene:
        scene.writer.transport.pause_reading()  # type: ignore[attr-defined]
        piece, sent = Raw.from_bytes(BIG[:MAX_RAW]), 0
        while not scene.far.is_full:
            scene.far.send(piece)
            sent += MAX_RAW
            assert sent < 40 << 20
            await asyncio.sleep(0)
        scene.far.send(EndTunnel())
        scene.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await scene.reader.read()) == sent
        scene.writer.close()
        scene.far.send(TunnelTaken())
        assert await scene.carrying


async def test_the_queue_of_a_stuck_peer_is_small(place: Place) -> None:
    """A few pieces: hundreds of tunnels may end in one program."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        await diary.until(lambda d: bool(d.connections))
        far = diary.connections[0]
        for _ in range(40):
            far.send(Raw.from_bytes(BIG[:MAX_RAW]))
        for _ in range(200):
            await asyncio.sleep(0)
        waiting = connection._side._waiting  # type: ignore[attr-defined]
        assert 0 < len(waiting) < 10
        for _ in range(40):
            assert await connection.receive() == Raw.from_bytes(BIG[:MAX_RAW])
        assert not waiting


@pytest.mark.parametrize("wrong", [[Ack(n=1)], [EndTunnel(), EndTunnel()], [EndTunnel(), Raw.from_bytes(b"more")]])
async def test_nonsense_breaks_it(place: Place, wrong: list[Message]) -> None:
    """What no tunnel carries, and what comes after the end."""
    async with tunnel(place) as scene:
        for message in wrong:
            scene.far.send(message)
        assert not await scene.carrying
