"""What becomes of messages between an executor and its application master, on order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.faults.fault_files import Order, OrderBook, give
from tests.support.faults.faulty_connection import FaultyConnection, LinkFault, reach
from tests.support.faults.plan_parser import parse_plan
from tests.support.faults.schedule import Conductor, Injection
from tests.support.waiting import wait_until
from tony.core.state import State
from tony.errors import ConnectionFailedError
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.protocol.executor_messages import Ack, Attach, Heartbeat, ProgramOutput
from tony.protocol.messages import Message

WORKER = TaskId("worker", 0)
STATE = State("job", JobSpec(roles={"worker": Role(instances=1)}))
BEAT = Heartbeat()
OUTPUT = ProgramOutput(n=1, session=1, try_=1)
ACK = Ack(n=1)
#: Seconds; far more than anything here takes.
CEILING = 30.0


def attach(task: str = "worker:0") -> Attach:
    """Who an executor says it is."""
    return Attach(task=task, container="c", incarnation="i", highest_attempt=1, pid=1, host="h")


def injections(plan: str) -> list[Injection]:
    """All faults of a plan, now."""
    return [injection for injection in Conductor(parse_plan(plan)).due(0.0, STATE) if not injection.over]


def order(injection: Injection, *, over: bool = False, seed: int = 0) -> Order:
    """What an executor reads of one."""
    assert injection.target.task is not None
    return Order(task=injection.target.task, number=injection.number, planned=injection.planned, over=over, seed=seed)


class Wire:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self.closed = False
        self.is_full = False

    def send(self, message: Message) -> None:
        """Keeps it."""
        self.sent.append(message)

    async def receive(self) -> Message | None:
        """What the test put in."""
        return await self.inbox.get()

    def close(self) -> None:
        """Over."""
        self.closed = True


@asynccontextmanager
async def converse(plan: str) -> AsyncIterator[tuple[FaultyConnection, Wire, LinkFault]]:
    """A conversation of worker:0 under a plan."""
    way, wire = LinkFault(), Wire()
    for injection in injections(plan):
        way.order(order(injection))
    connection = FaultyConnection(wire, way)
    connection.send(attach())
    yield connection, wire, way
    connection.close()


async def test_heartbeats_get_lost_and_nothing_else() -> None:
    """The connection continues: a lost heartbeat has no effect."""
    async with converse("drop heartbeats of worker:0") as (connection, wire, _):
        for message in (BEAT, OUTPUT, BEAT):
            connection.send(message)
        assert wire.sent == [attach(), OUTPUT]
        assert not wire.closed


async def test_a_lost_report_breaks_the_connection() -> None:
    """As a network does that loses a part of a stream: what comes after it does not arrive."""
    async with converse("drop reports of worker:0") as (connection, wire, _):
        connection.send(OUTPUT)
        assert (wire.sent, wire.closed) == ([attach()], True)
        assert await connection.receive() is None
        assert isinstance(connection.error, ConnectionFailedError)


async def test_messages_come_twice_and_late_and_in_order() -> None:
    """Both ways; what is not meant waits behind what is late."""
    plan = "delay reports of worker:0 by 20ms; duplicate reports of worker:0; duplicate commands of worker:0"
    async with converse(plan) as (connection, wire, _):
        connection.send(OUTPUT)
        connection.send(BEAT)
        assert wire.sent == [attach()]
        await wait_until(lambda: len(wire.sent) == 4)
        assert wire.sent[1:] == [OUTPUT, OUTPUT, BEAT]
        await wire.inbox.put(ACK)
        assert [await connection.receive() for _ in range(2)] == [ACK, ACK]


async def test_others_are_left_alone() -> None:
    """Orders name their task, and perhaps one executor of it."""
    async with converse("drop messages of worker:1; partition worker:1") as (connection, wire, way):
        (injection,) = injections("partition worker:0")
        way.order(replace(order(injection), incarnation="another"))
        connection.send(OUTPUT)
        assert wire.sent == [attach(), OUTPUT]
        way.order(replace(order(injection), incarnation="i"))
        connection.send(OUTPUT)
        assert wire.sent == [attach(), OUTPUT]


async def test_a_partition_delays_all_messages_silently() -> None:
    """Messages of both directions continue when it has ended; so does the end of the connection."""

    async def talk(connection: FaultyConnection, wire: Wire, way: LinkFault) -> None:
        (injection,) = injections("partition worker:0")
        connection.send(OUTPUT)
        await wire.inbox.put(ACK)
        await wire.inbox.put(None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.receive()
        assert (wire.sent, wire.closed) == ([], False)

        async def connect(timeout: float) -> Wire:
            return Wire()

        with pytest.raises(ConnectionFailedError, match="injected partition"):
            await reach(way, connect, 0.01)
        way.order(order(injection, over=True))
        assert await connection.receive() == ACK
        assert await connection.receive() is None
        await wait_until(lambda: wire.sent == [attach(), OUTPUT])
        await reach(way, connect, CEILING)

    way, wire = LinkFault(WORKER), Wire()
    way.order(order(injections("partition worker:0")[0]))
    connection = FaultyConnection(wire, way)
    connection.send(attach())
    await talk(connection, wire, way)


def test_chance_is_the_same_for_the_same_seed() -> None:
    """A share of the messages, which ones is the seed's word."""

    def lost(seed: int) -> list[int]:
        way = LinkFault(WORKER)
        way.order(order(injections("drop 0.3 of heartbeats of worker:0")[0], seed=seed))
        return [n for n in range(200) if way.fate(BEAT, sent=True)[0]]

    assert lost(1) == lost(1)
    assert lost(1) != lost(2)
    assert 30 < len(lost(1)) < 90


def test_orders_are_read_once_and_whole(tmp_path: Path) -> None:
    """A half-written line waits for its end."""
    file = tmp_path / "orders"
    book = OrderBook(file)
    assert list(book.new()) == []
    (injection,) = injections("partition worker:0 for 3s")
    give(file, injection, 5)
    assert list(book.new()) == [order(injection, seed=5)]
    line = file.read_bytes()
    with file.open("ab") as out:
        out.write(line[:20])
    assert list(book.new()) == []
    with file.open("ab") as out:
        out.write(line[20:])
    assert list(book.new()) == [order(injection, seed=5)]
