"""The one connection to the application master: made, kept, made anew; and the end of patience."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from tony.dataclass import replace
from tony.errors import ConnectionFailed, ProtocolError
from tony.executor.lease import Backoff, Lease
from tony.executor.session_protocol import LinkState, SessionProtocol, Wish
from tony.protocol.error_codes import Code
from tony.protocol.launch import LaunchContext
from tony.protocol.messages import Ack, Heartbeat, Message, StartProgram, Welcome
from tony.rpc.client_connection import connect

log = logging.getLogger(__name__)

#: Seconds that a connection and the answer to Attach may take each.
_ANSWER = 10.0
#: Seconds, in which this machine did not sleep, that an application master may take to renew a lease that is over. So
#: whoever shuts a laptop and opens it an hour later finds the program as it was. Part of what the application master
#: reckons with: `SLACK` in `core/policies/unconfirmed_exit.py`.
LAST_CHANCE = 5.0
#: Seconds by which a timer may be early.
_TICK = 0.01
#: What says only that it is the wrong moment, or the wrong one of two application masters.
_FOR_NOW = frozenset({Code.BUSY, Code.SUPERSEDED})


class Clock(Protocol):
    """What time it is; `tony.clock` in earnest."""

    def monotonic(self) -> float:
        """Seconds that never jump, and go on while the machine sleeps."""

    def wall(self) -> float:
        """Seconds since 1970."""


class AmTransport(Protocol):
    """What we need of `tony.rpc.connection.RpcConnection`."""

    def send(self, message: Message) -> None:
        """Sends a message; one that is over swallows it."""

    async def receive(self) -> Message | None:
        """The next message; None at the end."""

    def close(self) -> None:
        """Ends it once the other side has what was sent."""

    @property
    def is_full(self) -> bool:
        """Whether more was sent than the other side takes now."""


#: Makes a connection to the application master within so many seconds.
Connect = Callable[[float], Awaitable[AmTransport]]


class Reach:
    """The way to the application master, which may move. Called, it makes a connection.

    Attributes:
        address: where it is now, as far as we know.
    """

    def __init__(self, context: LaunchContext) -> None:
        self.address = context.task.am_address
        self._credentials = context.credentials

    async def __call__(self, timeout: float) -> AmTransport:
        """Connects within so many seconds."""
        return await connect(self.address, self._credentials, timeout=timeout)


class AmConnection:
    """Keeps in touch with the application master for as long as the lease allows.

    Attributes:
        unwanted: it has said that we are not wanted any more.
    """

    def __init__(
        self,
        dialog: SessionProtocol,
        lease: Lease,
        connect: Connect,
        clock: Clock,
        beat: Callable[[], Heartbeat],
        perform: Callable[[Wish], None],
        apart: Callable[[], None] = lambda: None,
        renewed: Callable[[], None] = lambda: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Connects to nobody yet.

        Args:
            beat: makes a heartbeat.
            perform: is told what the application master wants.
            apart: is called when a conversation has ended.
            renewed: is called when the lease has been renewed.
            before: is called before reports are sent, for what must not come after the report that all is over.
        """
        self._dialog = dialog
        self._lease = lease
        self._connect = connect
        self._clock = clock
        self._beat = beat
        self._perform = perform
        self._apart = apart
        self._renewed = renewed
        self._before = before
        self._connection: AmTransport | None = None
        self._welcome = asyncio.Event()
        self._backoff = Backoff()
        self._gone = False
        self._why = "no connection yet"
        self._stale: set[int] = set()
        self._resting = False
        self._step: asyncio.Timeout | None = None
        self._attached_at: float | None = None
        self._missed = False
        self.unwanted = False

    def flush(self) -> None:
        """Sends the reports that have not been sent."""
        if self._connection:
            self._before()
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

    def spare(self, message: Message) -> bool:
        """Sends a message of no great weight, unless it would have to wait; answers whether it went."""
        if self._connection is None or not self._dialog.heeds or self._connection.is_full:
            return False
        self._connection.send(message)
        return True

    def summoned(self, attempt: int, *, moved: bool) -> None:
        """An application master that we obey has called: goes to it at once, if we are not there yet.

        Args:
            moved: it is at another place than we thought.
        """
        self._backoff.reset()
        if moved or self._resting or self._dialog.partner not in (0, attempt):
            log.info("attempt %d of the application master calls", attempt)
            self._break_off()

    async def keep(self) -> str:
        """Connects again and again until the lease is over, or we are not wanted; answers why contact was lost."""
        while True:
            try:
                async with asyncio.timeout(None) as self._step:
                    await self._meet()
            except TimeoutError:
                if self._step is not None:
                    raise  # it was none of ours
            self._step = None
            if self.unwanted or self._left() <= 0:
                return self._why

    def _break_off(self) -> None:
        """Ends what `keep` is doing; it looks anew what there is to do."""
        if self._step is not None:
            self._step.reschedule(asyncio.get_running_loop().time())
            self._step = None

    async def _meet(self) -> None:
        """One try to connect, and all that comes of it."""
        left = self._left()
        self._resting = True
        try:
            await asyncio.sleep(min(self._backoff.delay(), left))
        finally:
            self._resting = False
        try:
            connection = await self._connect(min(_ANSWER, max(1.0, left)))
        except ConnectionFailed as error:
            self._lost(str(error), gone=error.gone)
        except ProtocolError as error:
            self._refused(error, str(error))
        else:
            await self._converse(connection)

    def _left(self) -> float:
        return self._lease.left(self._clock.monotonic(), gone=self._gone)

    def _lost(self, why: str, *, gone: bool) -> None:
        if why != self._why:
            log.warning("no contact to the application master: %s", why)
        self._why, self._gone = why, gone

    def _refused(self, error: ProtocolError, why: str) -> None:
        """It will not hear of us. If we are not wanted, waiting is wrong; else another one may come that wants us."""
        is_for_now = error.code in _FOR_NOW
        self.unwanted = error.code == Code.STALE or (self._attached_at is None and not is_for_now)
        self._lost(why, gone=not is_for_now)

    async def _converse(self, connection: AmTransport) -> None:
        self._connection = connection
        self._welcome.clear()
        began = self._clock.monotonic()
        connection.send(self._dialog.connected())
        try:
            # A heart that beats for ever ends with the conversation, and the conversation with whatever breaks it.
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._beat_on(connection))
                await self._listen(connection, began)
                beating.cancel()
        finally:
            self._connection = None
            self._dialog.disconnected()
            self._apart()
            connection.close()

    async def _listen(self, connection: AmTransport, began: float) -> None:
        """Hears what comes until the end, and keeps in mind what that means."""
        try:
            async with asyncio.timeout(_ANSWER) as patience:
                while (message := await connection.receive()) is not None:
                    self._hear(message, began)
                    if self._dialog.stance is LinkState.WELCOME:
                        patience.reschedule(None)
        except TimeoutError:
            self._lost(f"no answer to attach within {_ANSWER:g} s", gone=False)
        except ProtocolError as error:
            self._refused(error, f"the application master refused us: {error}")
        else:
            self._lost("it closed the connection", gone=False)

    def _hear(self, message: Message, began: float) -> None:
        welcome = self._dialog.stance is LinkState.ATTACHED
        if isinstance(message, StartProgram) and self._left() <= 0:
            # We stood still, and so did this message: who knows what it has been replaced by. It will be said again.
            self._missed = True
            return
        refused = self._dialog.refused
        wishes = self._dialog.received(message)
        if self._dialog.refused > refused:
            self._say_refused(message)
        if welcome and self._dialog.stance is LinkState.ATTACHED:
            raise ProtocolError(Code.SUPERSEDED, "an older application master answered")
        if welcome:
            log.info("attached; heartbeats every %g s", self._dialog.heartbeat_interval)
            self._attached_at = began
            if isinstance(message, Welcome) and message.renews:
                self._renew(began)
            self._welcome.set()
            self._gone, self._missed, self._why = False, False, ""
            self._backoff.reset()
        elif isinstance(message, Ack) and message.heard is not None and self._dialog.heeds:
            self._renew(min(message.heard, self._clock.monotonic()))
            if self._missed and self._left() > 0:
                self._break_off()  # on a new connection it tells us all that we must know
        for wish in wishes:
            self._perform(wish)
        self.flush()

    def _say_refused(self, message: Message) -> None:
        """Says, once for each older session, that something of it came."""
        session = getattr(message, "session", self._dialog.session)
        if session < self._dialog.session and session not in self._stale:
            self._stale.add(session)
            log.warning("%s of session %d came in session %d: refused", message.kind, session, self._dialog.session)

    def _renew(self, sent: float) -> None:
        self._lease.renew(sent)
        self._renewed()

    async def _beat_on(self, connection: AmTransport) -> None:
        await self._welcome.wait()
        # The first one at any time within the interval: those of ten thousand executors shall not come together.
        await asyncio.sleep(self._pause() * os.urandom(1)[0] / 256)
        while True:
            now = self._clock.monotonic()
            is_over = self._lease.left(now, gone=False) <= 0
            asks = self._lease.wants_renewal(now)
            beat = self._beat()
            connection.send(replace(beat, mono=now, asks=True) if asks else beat)
            left = self._lease.left(now, gone=False)
            await asyncio.sleep(LAST_CHANCE if is_over else min(self._pause(), left + _TICK))
            if is_over and self._left() <= 0:
                self._lost(f"it has not answered for {self._lease.term:.0f} s", gone=False)
                self._break_off()

    def _pause(self) -> float:
        return min(self._dialog.heartbeat_interval, self._lease.pulse)
