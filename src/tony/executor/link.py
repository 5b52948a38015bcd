"""The one connection to the application master: made, kept, made anew; and the end of patience."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from tony.errors import ConnectionFailed, ProtocolError
from tony.executor.dialog import Dialog, Stance, Wish
from tony.executor.lease import Backoff, Lease
from tony.protocol.errors import Code
from tony.protocol.launch import LaunchContext
from tony.protocol.messages import Heartbeat, Message
from tony.rpc.transport import connect

log = logging.getLogger(__name__)

#: Seconds that a connection and the answer to Attach may take each.
_ANSWER = 10.0


class Clock(Protocol):
    """What time it is; `tony.clock` in earnest."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def wall(self) -> float:
        """Seconds since 1970."""


class Connection(Protocol):
    """What we need of `tony.rpc.connection.Connection`."""

    def send(self, message: Message) -> None:
        """Sends a message; one that is over swallows it."""

    async def receive(self) -> Message | None:
        """The next message; None at the end."""

    def close(self) -> None:
        """Ends it once the other side has what was sent."""


#: Makes a connection to the application master within so many seconds.
Connect = Callable[[float], Awaitable[Connection]]


def reaching(context: LaunchContext) -> Connect:
    """Makes connections to the application master that a launch context names."""

    async def connect_within(timeout: float) -> Connection:
        return await connect(context.task.am_address, context.credentials, timeout=timeout)

    return connect_within


class Link:
    """Keeps in touch with the application master for as long as the lease allows."""

    def __init__(
        self,
        dialog: Dialog,
        lease: Lease,
        connect: Connect,
        clock: Clock,
        beat: Callable[[], Heartbeat],
        perform: Callable[[Wish], None],
        apart: Callable[[], None] = lambda: None,
    ) -> None:
        """Connects to nobody yet.

        Args:
            beat: makes a heartbeat.
            perform: is told what the application master wants.
            apart: is called when a conversation has ended.
        """
        self._dialog = dialog
        self._lease = lease
        self._connect = connect
        self._clock = clock
        self._beat = beat
        self._perform = perform
        self._apart = apart
        self._connection: Connection | None = None
        self._welcome = asyncio.Event()
        self._backoff = Backoff()
        self._gone = False
        self._why = "no connection yet"

    def flush(self) -> None:
        """Sends the reports that have not been sent."""
        if self._connection:
            for report in self._dialog.unsent(self._clock.monotonic()):
                self._connection.send(report)

    @property
    def is_connected(self) -> bool:
        """Whether there is anybody who would hear us."""
        return self._connection is not None

    def send(self, message: Message) -> None:
        """Sends a message that may get lost, if there is a connection."""
        if self._connection:
            self._connection.send(message)

    async def keep(self) -> str:
        """Connects again and again until the lease is over; answers why contact was lost."""
        while True:
            left = self._left()
            await asyncio.sleep(min(self._backoff.delay(), left))
            try:
                connection = await self._connect(min(_ANSWER, max(1.0, left)))
            except ConnectionFailed as error:
                self._lost(str(error), gone=error.gone)
            except ProtocolError as error:
                self._lost(str(error), gone=_is_refusal(error))
            else:
                await self._converse(connection)
            if self._left() <= 0:
                return self._why

    def _left(self) -> float:
        return self._lease.left(self._clock.monotonic(), gone=self._gone)

    def _lost(self, why: str, *, gone: bool) -> None:
        if why != self._why:
            log.warning("no contact to the application master: %s", why)
        self._why, self._gone = why, gone

    async def _converse(self, connection: Connection) -> None:
        self._connection = connection
        self._welcome.clear()
        connection.send(self._dialog.connected())
        try:
            # A heart that beats for ever ends with the conversation, and the conversation with whatever breaks it.
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._beat_on(connection))
                why, gone = await self._listen(connection)
                beating.cancel()
        finally:
            self._connection = None
            self._dialog.disconnected()
            self._apart()
            connection.close()
        self._lost(why, gone=gone)

    async def _listen(self, connection: Connection) -> tuple[str, bool]:
        """Hears what comes until the end; answers why it ended, and whether that says that nobody is there for us."""
        try:
            async with asyncio.timeout(_ANSWER) as patience:
                while (message := await connection.receive()) is not None:
                    self._hear(message)
                    if self._dialog.stance is Stance.WELCOME:
                        patience.reschedule(None)
        except TimeoutError:
            return f"no answer to attach within {_ANSWER:g} s", False
        except ProtocolError as error:
            return f"the application master refused us: {error}", _is_refusal(error)
        if getattr(connection, "error", None) is None:
            self._lease.renew(self._clock.monotonic())  # its kernel has just told us so: that was contact
        return "it closed the connection", False

    def _hear(self, message: Message) -> None:
        welcome = self._dialog.stance is Stance.ATTACHED
        wishes = self._dialog.received(message)
        if welcome and self._dialog.stance is Stance.ATTACHED:
            raise ProtocolError(Code.STALE, "an older application master answered")
        self._lease.renew(self._clock.monotonic())
        if welcome:
            log.info("attached; heartbeats every %g s", self._dialog.heartbeat_interval)
            self._welcome.set()
            self._gone, self._why = False, ""
            self._backoff.reset()
        for wish in wishes:
            self._perform(wish)
        self.flush()

    async def _beat_on(self, connection: Connection) -> None:
        await self._welcome.wait()
        # The first one at any time within the interval: those of ten thousand executors shall not come together.
        await asyncio.sleep(self._dialog.heartbeat_interval * os.urandom(1)[0] / 256)
        while True:
            connection.send(self._beat())
            await asyncio.sleep(self._dialog.heartbeat_interval)


def _is_refusal(error: ProtocolError) -> bool:
    """Whether trying again is of no use: as good as nobody there."""
    return error.code != Code.BUSY
