"""An executor's connection to its AM that drops, delays and duplicates messages by fault injection.

A stream delivers in order or not at all, so losing any message but a heartbeat breaks the connection, as in production.
A partition is silent on both sides: sent messages wait, received ones are held back, and no new connection is made
while it lasts.

Faults are commands in a file of the job directory: the fault injector appends lines, and every executor of the job
reads the whole file, later replacements too.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.plan import ConnectionFault, Delay, Drop, Duplicate, Partition, Traffic
from tony.errors import ConnectionFailedError
from tony.model.ids import TaskId
from tony.protocol.executor_messages import Attach, Heartbeat, ProgramExited, Ready, Reported
from tony.protocol.message_base import Message

if TYPE_CHECKING:
    from tony.executor.control.am_connection import AmTransport, Connect

#: The file of commands, in the job directory.
ORDERS = "orders"
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Order:
    """One command.

    Attributes:
        number: of the fault; the command that undoes it has the same.
        task: None for every task.
        incarnation: of the target executor; empty for every executor of the task, replacements included.
        seed: of the random choices.
    """

    number: int
    fault: ConnectionFault
    task: TaskId | None = None
    incarnation: str = ""
    seed: int = 0
    is_over: bool = False


def append_order(file: Path, order: Order) -> None:
    """Append a command in one write, so that no reader sees half of it."""
    with file.open("ab", buffering=0) as out:
        out.write(base64.b64encode(pickle.dumps(order)) + b"\n")


class OrderReader:
    """Reads a command file, each command once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def read_new(self) -> Iterator[Order]:
        """Yield the commands since the last call."""
        try:
            lines = self._file.read_bytes()[self._offset :].splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            if line.endswith(b"\n"):
                self._offset += len(line)
                yield pickle.loads(base64.b64decode(line))


class LinkFault:
    """The faults of one executor's link to its AM, over all of its connections.

    Args:
        task, incarnation: None and empty until the executor attaches.
    """

    def __init__(self, task: TaskId | None = None, incarnation: str = "") -> None:
        self._task = task
        self._incarnation = incarnation
        self._orders: dict[int, Order] = {}
        self._random: dict[int, random.Random] = {}
        self._open = asyncio.Event()
        self._open.set()

    def order(self, order: Order) -> None:
        """Handle a command; commands for other tasks have no effect here."""
        if order.is_over:
            self._orders.pop(order.number, None)
        else:
            self._orders[order.number] = order
            self._random.setdefault(order.number, random.Random(f"{order.seed}/{order.number}/{order.task}"))
        self._update()

    def identify(self, task: TaskId, incarnation: str) -> None:
        """Set the identity of the executor, from its Attach message."""
        self._task, self._incarnation = task, incarnation
        self._update()

    def _update(self) -> None:
        if any(isinstance(order.fault, Partition) for order in self._list_own()):
            self._open.clear()
        else:
            self._open.set()

    def _list_own(self) -> list[Order]:
        return [
            order
            for _, order in sorted(self._orders.items())
            if order.task in (None, self._task) and order.incarnation in ("", self._incarnation)
        ]

    @property
    def is_open(self) -> bool:
        """Whether there is no partition."""
        return self._open.is_set()

    async def wait_open(self) -> None:
        """Wait until there is no partition."""
        await self._open.wait()

    async def follow(self, file: Path) -> None:
        """Handle the commands of a file, for ever."""
        reader = OrderReader(file)
        while True:
            for order in reader.read_new():
                self.order(order)
            await asyncio.sleep(_POLL_SECONDS)

    def fate(self, message: Message, *, is_sent: bool) -> tuple[bool, float, int]:
        """Return whether a message is lost, its delay in seconds, and the number of copies."""
        is_lost, delay, copies = False, 0.0, 1
        for order in self._list_own():
            fault = order.fault
            if isinstance(fault, Partition) or not _is_of(message, fault.traffic, is_sent=is_sent):
                continue
            if self._random[order.number].random() >= fault.share:
                continue
            match fault:
                case Drop():
                    is_lost = True
                case Delay(seconds=seconds):
                    delay += seconds
                case Duplicate():
                    copies += 1
        return is_lost, delay, copies


def _is_of(message: Message, traffic: Traffic, *, is_sent: bool) -> bool:
    if not is_sent:
        return traffic is Traffic.COMMANDS
    match traffic:
        case Traffic.HEARTBEATS:
            return isinstance(message, Heartbeat)
        case Traffic.REPORTS:
            return isinstance(message, Reported)
        case Traffic.READY:
            return isinstance(message, Ready)
        case Traffic.EXITS:
            return isinstance(message, ProgramExited)
        case Traffic.MESSAGES:
            return not isinstance(message, Attach)
        case Traffic.COMMANDS:
            return False


async def reach(link: LinkFault, connect: Connect, timeout: float) -> AmTransport:
    """Connect over a link that may be partitioned.

    Raises:
        ConnectionFailedError: the partition lasted longer than the timeout.
    """
    try:
        async with asyncio.timeout(timeout):
            await link.wait_open()
    except TimeoutError:
        raise ConnectionFailedError("the connection timed out: injected partition") from None
    return FaultyConnection(await connect(timeout), link)


class FaultyConnection:
    """One connection over a faulty link."""

    def __init__(self, connection: AmTransport, link: LinkFault) -> None:
        self._connection = connection
        self._link = link
        self._is_busy = False
        self._out: asyncio.Queue[tuple[float, Message]] = asyncio.Queue()
        self._in: asyncio.Queue[tuple[float, Message | Exception | None]] = asyncio.Queue()
        self._lost: ConnectionFailedError | None = None
        loop = asyncio.get_running_loop()
        self._working = [loop.create_task(self._send_queued()), loop.create_task(self._receive_all())]

    def send(self, message: Message) -> None:
        """Send a message once, later, twice, or not at all."""
        if isinstance(message, Attach):
            self._link.identify(message.task, message.incarnation)
        is_lost, delay, copies = self._link.fate(message, is_sent=True)
        if is_lost:
            if not isinstance(message, Heartbeat):
                self._break()
            return
        is_first = (self._out.empty() and not self._is_busy) or isinstance(message, Heartbeat)
        for _ in range(copies):
            if is_first and not delay and self._link.is_open:
                self._connection.send(message)
            else:
                self._out.put_nowait((asyncio.get_running_loop().time() + delay, message))

    async def receive(self) -> Message | None:
        """Return the next message."""
        at, message = await self._in.get()
        await _wait_until(at)
        if isinstance(message, Exception):
            raise message
        return message

    def close(self) -> None:
        """Send the queued messages, and close the connection."""
        for task in self._working:
            task.cancel()
        while self._link.is_open and not self._out.empty():
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

    async def _send_queued(self) -> None:
        while True:
            at, message = await self._out.get()
            self._is_busy = True
            await _wait_until(at)
            await self._link.wait_open()
            self._connection.send(message)
            self._is_busy = False

    async def _receive_all(self) -> None:
        """Receive messages; during a partition, hold them back."""
        while True:
            try:
                message = await self._connection.receive()
            except Exception as error:  # raised in `receive`, as by the real connection
                await self._link.wait_open()
                self._in.put_nowait((0.0, error))
                return
            await self._link.wait_open()
            if message is None:
                self._in.put_nowait((0.0, None))
                return
            is_lost, delay, copies = self._link.fate(message, is_sent=False)
            if is_lost:
                self._break()
                return
            at = asyncio.get_running_loop().time() + delay
            for _ in range(copies):
                self._in.put_nowait((at, message))

    def _break(self) -> None:
        """Break the connection, as a stream that loses data does."""
        self._lost = ConnectionFailedError("a message was lost: injected fault")
        self._in.put_nowait((0.0, None))
        self._connection.close()


async def _wait_until(at: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < at:
        await asyncio.sleep(at - loop.time())
