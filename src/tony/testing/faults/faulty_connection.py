"""An executor's connection to its application master that loses, delays and doubles what it carries, on order.

What a stream carries arrives in order or not at all: so whoever loses a message here, a heartbeat excepted, loses the
connection with it, as in earnest. A partition says nothing to either side: what was said before waits, what comes is
not heard, and no new connection is made as long as it lasts.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING

from tony.errors import ConnectionFailed
from tony.model.ids import TaskId
from tony.protocol.messages import Attach, Heartbeat, Message, Reported
from tony.testing.faults.fault_files import Order, follow_quietly
from tony.testing.faults.plan import Delay, Drop, Duplicate, Partition, Traffic

if TYPE_CHECKING:
    from tony.executor.am_connection import AmTransport, Connect


class LinkFault:
    """What is in the way between one executor and its application master; over all of its connections.

    Args:
        task, incarnation: None and empty until it says who it is.
    """

    def __init__(self, task: TaskId | None = None, incarnation: str = "") -> None:
        self.task = task
        self.incarnation = incarnation
        self._orders: dict[int, Order] = {}
        self._chances: dict[int, random.Random] = {}
        self._open = asyncio.Event()
        self._open.set()

    def order(self, order: Order) -> None:
        """Takes an order; one for another task holds for nobody here."""
        if order.over:
            self._orders.pop(order.number, None)
        else:
            self._orders[order.number] = order
            self._chances.setdefault(order.number, random.Random(f"{order.seed}/{order.number}/{order.task}"))
        self._look()

    def known(self, task: TaskId, incarnation: str) -> None:
        """The executor has said who it is."""
        self.task, self.incarnation = task, incarnation
        self._look()

    def _look(self) -> None:
        """Opens or closes the way."""
        if any(isinstance(order.strike.harm, Partition) for order in self._mine()):
            self._open.clear()
        else:
            self._open.set()

    def _mine(self) -> list[Order]:
        return [
            order
            for _, order in sorted(self._orders.items())
            if order.task == self.task and order.incarnation in ("", self.incarnation)
        ]

    @property
    def is_open(self) -> bool:
        """Whether anything passes."""
        return self._open.is_set()

    async def wait_open(self) -> None:
        """Waits until something passes."""
        await self._open.wait()

    def fate(self, message: Message, *, sent: bool) -> tuple[bool, float, int]:
        """What becomes of a message: whether it is lost, how much later it comes, how often."""
        lost, later, times = False, 0.0, 1
        for order in self._mine():
            harm = order.strike.harm
            if not isinstance(harm, Drop | Delay | Duplicate) or not _is_of(message, harm.traffic, sent=sent):
                continue
            if self._chances[order.number].random() >= harm.share:
                continue
            match harm:
                case Drop():
                    lost = True
                case Delay(seconds=seconds):
                    later += seconds
                case Duplicate():
                    times += 1
        return lost, later, times


def _is_of(message: Message, traffic: Traffic, *, sent: bool) -> bool:
    match traffic:
        case Traffic.COMMANDS:
            return not sent
        case Traffic.HEARTBEATS:
            return sent and isinstance(message, Heartbeat)
        case Traffic.REPORTS:
            return sent and isinstance(message, Reported)
        case Traffic.MESSAGES:
            return sent and not isinstance(message, Attach)


def struck(orders: Path, connect: Connect) -> Connect:
    """Connections made from now on are struck as the file orders."""
    way = LinkFault()
    following: list[asyncio.Task[None]] = []

    async def connect_within(timeout: float) -> AmTransport:
        if not following:
            following.append(asyncio.get_running_loop().create_task(follow_quietly(orders, way.order)))
        return await reach(way, connect, timeout)

    return connect_within


async def reach(way: LinkFault, connect: Connect, timeout: float) -> AmTransport:
    """A connection along a way that may be closed.

    Raises:
        ConnectionFailed: it was closed all the time.
    """
    try:
        async with asyncio.timeout(timeout):
            await way.wait_open()
    except TimeoutError:
        raise ConnectionFailed("nothing passes: partitioned, as ordered") from None
    return StruckConnection(await connect(timeout), way)


class StruckConnection:
    """One connection along a way."""

    def __init__(self, connection: AmTransport, way: LinkFault) -> None:
        self._connection = connection
        self._way = way
        self._busy = False
        self._lost: ConnectionFailed | None = None
        self._out: asyncio.Queue[tuple[float, Message]] = asyncio.Queue()
        self._came: asyncio.Queue[tuple[float, Message | Exception | None]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._working = [loop.create_task(self._pass_on()), loop.create_task(self._take_in())]

    def send(self, message: Message) -> None:
        """Sends, later, twice, or not at all."""
        if isinstance(message, Attach):
            self._way.known(TaskId.parse(message.task), message.incarnation)
        lost, later, times = self._way.fate(message, sent=True)
        if lost:
            if not isinstance(message, Heartbeat):
                self._break()
            return
        loop = asyncio.get_running_loop()
        if not later and self._out.empty() and self._way.is_open and not self._busy:
            for _ in range(times):
                self._connection.send(message)
            return
        for _ in range(times):
            self._out.put_nowait((loop.time() + later, message))

    async def receive(self) -> Message | None:
        """The next message."""
        at, message = await self._came.get()
        await _wait_until(at)
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """Ends the connection, once what waits has been sent."""
        for task in self._working:
            task.cancel()
        while self._way.is_open and not self._out.empty():
            self._connection.send(self._out.get_nowait()[1])
        self._connection.close()

    @property
    def is_full(self) -> bool:
        """Whether something waits already."""
        return not self._out.empty() or self._connection.is_full

    @property
    def error(self) -> Exception | None:
        """Why it ended, if not in an orderly way."""
        return self._lost or getattr(self._connection, "error", None)

    async def _pass_on(self) -> None:
        """Hands on what waits, in its order."""
        while True:
            at, message = await self._out.get()
            self._busy = True
            await _wait_until(at)
            await self._way.wait_open()
            self._connection.send(message)
            self._busy = False

    async def _take_in(self) -> None:
        """Hears what comes; while nothing passes it stays where it is."""
        while True:
            try:
                message = await self._connection.receive()
            except Exception as error:  # whoever receives is told, as without us
                await self._way.wait_open()
                self._came.put_nowait((0.0, error))
                return
            await self._way.wait_open()
            if message is None:
                self._came.put_nowait((0.0, None))
                return
            lost, later, times = self._way.fate(message, sent=False)
            if lost:
                self._break()
                return
            at = asyncio.get_running_loop().time() + later
            for _ in range(times):
                self._came.put_nowait((at, message))

    def _break(self) -> None:
        """What a stream loses, it does not survive."""
        self._lost = ConnectionFailed("a message was lost, as ordered")
        self._came.put_nowait((0.0, None))
        self._connection.close()


async def _wait_until(at: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < at:
        await asyncio.sleep(at - loop.time())
