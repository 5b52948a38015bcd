"""An executor's connection to its AM that drops, delays and duplicates messages by fault injection.

A stream delivers in order or not at all, so losing any message but a heartbeat breaks the connection, as in production.
A partition is silent on both sides: sent messages wait, received ones are held back, and no new connection is made
while it lasts.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.fault_files import Order, follow_quietly
from tests.support.faults.plan import Delay, Drop, Duplicate, Partition, Traffic
from tony.errors import ConnectionFailedError
from tony.model.ids import TaskId
from tony.protocol.executor_messages import Attach, Heartbeat, Reported
from tony.protocol.messages import Message

if TYPE_CHECKING:
    from tony.executor.control.am_connection import AmTransport, Connect


class LinkFault:
    """The faults of one executor's link to its AM, over all of its connections.

    Args:
        task, incarnation: None and empty until the executor attaches.
    """

    def __init__(self, task: TaskId | None = None, incarnation: str = "") -> None:
        self.task = task
        self.incarnation = incarnation
        self._orders: dict[int, Order] = {}
        self._chances: dict[int, random.Random] = {}
        self._open = asyncio.Event()
        self._open.set()

    def order(self, order: Order) -> None:
        """Handle a command; commands for other tasks have no effect here."""
        if order.over:
            self._orders.pop(order.number, None)
        else:
            self._orders[order.number] = order
            self._chances.setdefault(order.number, random.Random(f"{order.seed}/{order.number}/{order.task}"))
        self._look()

    def known(self, task: TaskId, incarnation: str) -> None:
        """Set the identity of the executor, from its Attach message."""
        self.task, self.incarnation = task, incarnation
        self._look()

    def _look(self) -> None:
        """Open or close the link."""
        if any(isinstance(order.planned.harm, Partition) for order in self._mine()):
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
        """Whether there is no partition."""
        return self._open.is_set()

    async def wait_open(self) -> None:
        """Wait until there is no partition."""
        await self._open.wait()

    def fate(self, message: Message, *, sent: bool) -> tuple[bool, float, int]:
        """Return whether a message is lost, its delay in seconds, and the number of copies."""
        lost, later, times = False, 0.0, 1
        for order in self._mine():
            harm = order.planned.harm
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


def inject_faults(orders: Path, connect: Connect) -> Connect:
    """Return a connect function whose connections have the faults of the command file."""
    way = LinkFault()
    following: list[asyncio.Task[None]] = []

    async def connect_within(timeout: float) -> AmTransport:
        if not following:
            following.append(asyncio.get_running_loop().create_task(follow_quietly(orders, way.order)))
        return await reach(way, connect, timeout)

    return connect_within


async def reach(way: LinkFault, connect: Connect, timeout: float) -> AmTransport:
    """Connect over a link that may be partitioned.

    Raises:
        ConnectionFailedError: the partition lasted longer than the timeout.
    """
    try:
        async with asyncio.timeout(timeout):
            await way.wait_open()
    except TimeoutError:
        raise ConnectionFailedError("the connection timed out: injected partition") from None
    return FaultyConnection(await connect(timeout), way)


class FaultyConnection:
    """One connection over a faulty link."""

    def __init__(self, connection: AmTransport, way: LinkFault) -> None:
        self._connection = connection
        self._way = way
        self._busy = False
        self._lost: ConnectionFailedError | None = None
        self._out: asyncio.Queue[tuple[float, Message]] = asyncio.Queue()
        self._came: asyncio.Queue[tuple[float, Message | Exception | None]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._working = [loop.create_task(self._pass_on()), loop.create_task(self._take_in())]

    def send(self, message: Message) -> None:
        """Send a message once, later, twice, or not at all."""
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
        """Return the next message."""
        at, message = await self._came.get()
        await _wait_until(at)
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """Send the queued messages, and close the connection."""
        for task in self._working:
            task.cancel()
        while self._way.is_open and not self._out.empty():
            self._connection.send(self._out.get_nowait()[1])
        self._connection.close()

    @property
    def is_full(self) -> bool:
        """Whether messages are queued, or the send buffer is full."""
        return not self._out.empty() or self._connection.is_full

    @property
    def error(self) -> Exception | None:
        """The error that ended the connection; None for an orderly end."""
        return self._lost or getattr(self._connection, "error", None)

    async def _pass_on(self) -> None:
        """Send the queued messages in order."""
        while True:
            at, message = await self._out.get()
            self._busy = True
            await _wait_until(at)
            await self._way.wait_open()
            self._connection.send(message)
            self._busy = False

    async def _take_in(self) -> None:
        """Receive messages; during a partition, hold them back."""
        while True:
            try:
                message = await self._connection.receive()
            except Exception as error:  # raised in `receive`, as by the real connection
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
        """Break the connection, as a stream that loses data does."""
        self._lost = ConnectionFailedError("a message was lost: injected fault")
        self._came.put_nowait((0.0, None))
        self._connection.close()


async def _wait_until(at: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < at:
        await asyncio.sleep(at - loop.time())
