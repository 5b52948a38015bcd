"""Injected faults of messages between an executor and its AM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.faults.faulty_connection import FaultyConnection, LinkFault, Order, OrderReader, append_order, reach
from tests.support.faults.plan import ConnectionFault, Delay, Drop, Duplicate, Partition, Traffic
from tests.support.waiting import wait_until
from tony.errors import ConnectionFailedError
from tony.model.ids import TaskId
from tony.protocol.executor_messages import Ack, Attach, Heartbeat, ProgramOutput
from tony.protocol.message_base import Message

WORKER = TaskId("worker", 0)
ATTACH = Attach(task=TaskId("worker", 0), container="c", incarnation="i", highest_attempt=1, pid=1, host="h")
BEAT = Heartbeat()
OUTPUT = ProgramOutput(n=1, session=1, try_=1)
ACK = Ack(n=1)


class Wire:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self.closed = False
        self.is_full = False

    def send(self, message: Message) -> None:
        self.sent.append(message)

    async def receive(self) -> Message | None:
        return await self.inbox.get()

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def converse(*faults: ConnectionFault) -> AsyncIterator[tuple[FaultyConnection, Wire, LinkFault]]:
    """Connect worker:0 over a link with these faults."""
    link, wire = LinkFault(), Wire()
    for number, fault in enumerate(faults):
        link.order(Order(number, fault, WORKER))
    connection = FaultyConnection(wire, link)
    connection.send(ATTACH)
    yield connection, wire, link
    connection.close()


async def test_a_lost_report_breaks_the_connection_and_a_lost_heartbeat_does_not() -> None:
    """As a network does that loses a part of a stream: what comes after it does not arrive."""
    async with converse(Drop(Traffic.HEARTBEATS)) as (connection, wire, _):
        for message in (BEAT, OUTPUT, BEAT):
            connection.send(message)
        assert (wire.sent, wire.closed) == ([ATTACH, OUTPUT], False)
    async with converse(Drop(Traffic.REPORTS)) as (connection, wire, _):
        connection.send(OUTPUT)
        assert (wire.sent, wire.closed) == ([ATTACH], True)
        assert await connection.receive() is None
        assert isinstance(connection.error, ConnectionFailedError)


async def test_messages_come_twice_and_late() -> None:
    """Both ways; heartbeats continue meanwhile."""
    faults = (Delay(Traffic.REPORTS, 0.02), Duplicate(Traffic.REPORTS), Duplicate(Traffic.COMMANDS))
    async with converse(*faults) as (connection, wire, _):
        connection.send(OUTPUT)
        connection.send(BEAT)
        assert wire.sent == [ATTACH, BEAT]
        await wait_until(lambda: len(wire.sent) == 4)
        assert wire.sent[2:] == [OUTPUT, OUTPUT]
        await wire.inbox.put(ACK)
        assert [await connection.receive() for _ in range(2)] == [ACK, ACK]


async def test_a_partition_delays_all_messages_silently() -> None:
    """Messages of both directions continue when it has ended; so does the end of the connection."""

    async def connect(timeout: float) -> Wire:
        return Wire()

    async with converse() as (connection, wire, link):
        link.order(Order(0, Partition(), WORKER, incarnation="another"))
        link.order(Order(1, Partition(), TaskId("worker", 1)))
        assert link.is_open
        link.order(Order(2, Partition(), WORKER, incarnation="i"))
        connection.send(OUTPUT)
        await wire.inbox.put(ACK)
        await wire.inbox.put(None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.receive()
        assert (wire.sent, wire.closed) == ([ATTACH], False)
        with pytest.raises(ConnectionFailedError, match="injected partition"):
            await reach(link, connect, 0.01)
        link.order(Order(2, Partition(), WORKER, is_over=True))
        assert await connection.receive() == ACK
        assert await connection.receive() is None
        await wait_until(lambda: wire.sent == [ATTACH, OUTPUT])


def test_orders_are_read_once_and_whole(tmp_path: Path) -> None:
    """A half-written line waits for its end."""
    file, order = tmp_path / "orders", Order(3, Drop(Traffic.REPORTS, 0.1), WORKER)
    reader = OrderReader(file)
    assert list(reader.read_new()) == []
    append_order(file, order)
    assert list(reader.read_new()) == [order]
    line = file.read_bytes()
    for part, found in ((line[:20], []), (line[20:], [order])):
        with file.open("ab") as out:
            out.write(part)
        assert list(reader.read_new()) == found
