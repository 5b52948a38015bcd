"""A peer that does not read what it is sent costs little, and no other peer waits for it."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import AsyncExitStack

from tests.rpc.recording_server import Place, connected, hello, raw, serving
from tony.protocol.framing import encode
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done, SetLogLevel
from tony.rpc.connection import READ_SIZE

#: More than the kernel takes for one connection without a reader.
BIG = SetLogLevel(level="x" * (12 << 20))


async def test_a_frame_for_many_readers_is_held_once(place: Place) -> None:
    """Ten times 12 MiB wait, and a few pieces more than the one frame are in memory; other peers are served
    meanwhile."""
    count = 10
    async with AsyncExitStack() as stack:
        _, diary, address = await stack.enter_async_context(serving(place))
        for _ in range(count):
            sleeper = await stack.enter_async_context(raw(address))
            sleeper.writer.transport.pause_reading()  # type: ignore[attr-defined]
            sleeper.writer.write(hello())
        await diary.until(lambda d: len(d.connections) == count)
        frame = encode(BIG)
        tracemalloc.start()
        for connection in diary.connections:
            connection.send_frame(frame)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert all(connection.backlog > len(frame) / 2 for connection in diary.connections)
        assert held < count * 4 * READ_SIZE
        reader = await stack.enter_async_context(connected(place, address))
        await diary.until(lambda d: len(d.connections) == count + 1)
        diary.connections[-1].send_frame(frame)
        assert await reader.receive() == BIG


async def test_a_late_reader_gets_everything_in_order(place: Place) -> None:
    """Messages sent while a long one waited follow it."""
    async with serving(place) as (_, diary, address), connected(place, address) as connection:
        connection.pause_reading()
        await diary.until(lambda d: bool(d.connections))
        peer = diary.connections[0]
        sent: list[Message] = [BIG, Done(), SetLogLevel(level="debug"), BIG, Done()]
        for message in sent:
            peer.send(message)
        for _ in range(100):
            await asyncio.sleep(0)
        waits = peer.backlog
        assert waits > READ_SIZE
        connection.resume_reading()
        assert [await connection.receive() for _ in sent] == sent
        await peer.drain()
        assert peer.backlog < READ_SIZE


async def test_breaking_a_connection_frees_its_queue(place: Place) -> None:
    """Nothing of it is kept until the socket is gone."""
    async with serving(place) as (_, diary, address), raw(address) as sleeper:
        sleeper.writer.transport.pause_reading()  # type: ignore[attr-defined]
        sleeper.writer.write(hello())
        await diary.until(lambda d: bool(d.connections))
        connection = diary.connections[0]
        connection.send(BIG)
        connection.abort()
        assert connection.backlog == 0
        await diary.until(lambda d: bool(d.ends))
